-- Purpose: read rows by key, each as common_read.lua's read_row says.
-- KEYS/ARGV[1..2]: see common.lua; writes only refreshes, which may be repeated, so it takes no lane
-- ARGV[3]  N, the number of namespaces; then N namespaces, encoded
-- then four a row: index of its namespace (from 1), key, flags (1: refresh the TTL, 2: return the value),
--          the content number expected, or '' for any
-- Returns  one entry a row: nil (no such row, or expired), 0 (another content number), or {meta, value, rest, type}; then
--          the time

local spaces, first_row = {}, 4 + tonumber(ARGV[3])
for i = 4, first_row - 1 do
  spaces[#spaces + 1] = row_space(ARGV[i])
end
local rows = {}
for at = first_row, #ARGV, 4 do
  local flags = tonumber(ARGV[at + 2])
  rows[#rows + 1] = read_row(spaces[tonumber(ARGV[at])], ARGV[at + 1], flags % 2 == 1, flags >= 2,
    tonumber(ARGV[at + 3]))
end
write_refreshes()
rows[#rows + 1] = string.format('%.0f', now)
return rows
