-- Purpose: delete rows; what is absent is passed over in silence.
-- KEYS/ARGV[1..2], lane: see common_write.lua, common_life.lua
-- ARGV[3]  '1': they leave no tombstone, and the floors of their namespaces are raised
-- ARGV[4]  N, the number of namespaces; then N namespaces, encoded
-- then three a row: index of its namespace (from 1), key, content number, or '' for any
-- Returns  how many rows were there
-- Works at maxmemory: its first write is one that frees.

local before = result_before()
if before then return tonumber(before) end

local spaces, first_row = {}, 5 + tonumber(ARGV[4])
for i = 5, first_row - 1 do
  spaces[#spaces + 1] = space(ARGV[i])
end
local doomed = {}
for at = first_row, #ARGV - 2, 3 do
  local s, key, content = spaces[tonumber(ARGV[at])], ARGV[at + 1], tonumber(ARGV[at + 2])
  local meta = redis.call('HGET', s.m, key)
  if meta and not (content and intact(meta) and double(meta, AT_CONTENT) ~= content) then
    if not s.is_touched then
      s.is_touched = true
      prove_types(s)
    end
    doomed[#doomed + 1] = {s, key}
  end
end
if #doomed == 0 then return 0 end
begin_removals()
for _, row in ipairs(doomed) do
  remove(row[1], row[2], ARGV[3] == '1')
end
for _, s in ipairs(spaces) do
  if s.is_touched then after_removals(s) end
end
write_changes()
remember_result(tostring(#doomed))
return #doomed
