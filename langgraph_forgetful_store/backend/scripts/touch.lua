-- Purpose: count accesses of rows: a change of meta alone. What is gone, or lives another life, is passed over.
-- KEYS/ARGV[1..2], lane: see common_write.lua
-- ARGV[3]  N, the number of namespaces; then N namespaces, encoded
-- then five a row: index of its namespace (from 1), key, accesses to add, ms since the last one, created_at
-- Returns  {how many rows were counted, index of each namespace that something else has written over: none of its rows}
-- Works at maxmemory: its first write is one that frees.

local before = result_before()
if before then
  local reply = {}
  for number in string.gmatch(before, '%d+') do reply[#reply + 1] = tonumber(number) end
  return reply
end

local spaces, first_row, reply = {}, 4 + tonumber(ARGV[3]), {0}
for i = 4, first_row - 1 do
  local s = space(ARGV[i])
  spaces[#spaces + 1] = s
  s.sound = is_sound(s)
  if not s.sound then reply[#reply + 1] = #spaces end
end
prove_shared_types()
open_gate()
for at = first_row, #ARGV - 2, 5 do
  local s, key, created = spaces[tonumber(ARGV[at])], ARGV[at + 1], tonumber(ARGV[at + 4])
  local meta = s.sound and redis.call('HGET', s.m, key)
  if meta and intact(meta) and not gone(meta) and double(meta, AT_CREATED_AT) == created then
    local accesses = math.min(struct.unpack('<I4', meta, AT_ACCESS_COUNT) + tonumber(ARGV[at + 2]), 4294967295)
    local accessed = math.max(double(meta, AT_ACCESSED_AT), now - tonumber(ARGV[at + 3]))
    meta = string.sub(meta, 1, AT_ACCESSED_AT - 1) .. struct.pack('<d', accessed)
      .. string.sub(meta, AT_ACCESSED_AT + 8, AT_ACCESS_COUNT - 1) .. struct.pack('<I4', accesses)
      .. string.sub(meta, AT_ACCESS_COUNT + 4)
    redis.call('HSET', s.m, key, meta)
    s.number = redis.call('INCR', P .. 'seq')
    redis.call('ZADD', s.l, s.number, key)
    reply[1] = reply[1] + 1
  end
end
for _, s in ipairs(spaces) do
  if s.number then
    note_change(s.ns, s.number)
    prune_log(s, s.l)
  end
end
write_changes()
remember_result(table.concat(reply, ' '))
return reply
