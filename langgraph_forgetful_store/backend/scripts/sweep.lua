-- Purpose: delete expired rows, the earliest namespaces first; bounded.
-- KEYS/ARGV[1..2], lane: see common_write.lua, common_life.lua. Sweeps whatever ARGV[2] says.
-- ARGV[3]  how many rows at the most; ARGV[4] how many namespaces to look at; ARGV[5] how many due ones to pass over, which
--          calls before have found to be written over by something else
-- Returns  {rows deleted, '1' where more may be left, how many more namespaces were found to be so}
-- Works at maxmemory: its first write is one that frees.

local before = result_before()
if before then
  local removed, more, broken = string.match(before, '^(%d+) (%d) (%d+)$')
  return {tonumber(removed), more, tonumber(broken)}
end

local left, removed, more, broken = tonumber(ARGV[3]), 0, '0', 0
local due = redis.call('ZRANGEBYSCORE', P .. 'exp', '-inf', now, 'LIMIT', ARGV[5], ARGV[4])
if #due == 0 then return {0, '0', 0} end
if #due == tonumber(ARGV[4]) then more = '1' end
local spaces = {}
for _, ns in ipairs(due) do
  if left == 0 then
    more = '1'
    break
  end
  local s = space(ns)
  if is_sound(s) then
    s.keys = redis.call('ZRANGEBYSCORE', s.t, '-inf', now, 'LIMIT', 0, left)
    spaces[#spaces + 1] = s
    removed, left = removed + #s.keys, left - #s.keys
  else
    broken = broken + 1
  end
end
if left == 0 then more = '1' end
begin_removals()
for _, s in ipairs(spaces) do
  local typed = 0
  for _, key in ipairs(s.keys) do
    local meta = redis.call('HGET', s.m, key)
    if meta and intact(meta) and has(struct.unpack('<H', meta, AT_FLAGS), ABSOLUTE) then typed = typed + 1 end
    remove(s, key)
  end
  after_removals(s)
  if #s.keys > 0 then
    audit(s.ns, '', 'sweep', '', '', string.format('{"expired": %d, "expired_by_type": %d}', #s.keys, typed))
  end
end
write_changes()
remember_result(removed .. ' ' .. more .. ' ' .. broken)
return {removed, more, broken}
