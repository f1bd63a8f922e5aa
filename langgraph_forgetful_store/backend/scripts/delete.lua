-- Purpose: delete rows; what is absent is passed over in silence.
-- KEYS/ARGV[1..2], lane: see common.lua
-- ARGV[3]  N, the number of namespaces; then N namespaces, encoded
-- then two a row: index of its namespace (from 1), key
-- Returns  how many rows were there
-- Works at maxmemory: its first write is one that frees.

local before = result_before()
if before then return tonumber(before) end

local spaces, first_row = {}, 4 + tonumber(ARGV[3])
for i = 4, first_row - 1 do
  spaces[#spaces + 1] = space(ARGV[i])
end
local removed = 0
for at = first_row, #ARGV - 2, 2 do
  local s, key = spaces[tonumber(ARGV[at])], ARGV[at + 1]
  if redis.call('HEXISTS', s.m, key) == 1 then
    remove(s, key)
    removed = removed + 1
  end
end
if removed > 0 then
  for _, s in ipairs(spaces) do
    if s.number then after_removals(s) end
  end
  remember_result(tostring(removed))
end
return removed
