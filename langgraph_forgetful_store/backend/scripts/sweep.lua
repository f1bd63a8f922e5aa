-- Purpose: delete expired rows, the earliest namespaces first; bounded.
-- KEYS/ARGV[1..2], lane: see common_write.lua, common_life.lua. Sweeps whatever ARGV[2] says.
-- ARGV[3]  how many rows at the most; ARGV[4] how many namespaces to look at
-- Returns  {rows deleted, '1' where more may be left}
-- Works at maxmemory: its first write is one that frees.

local before = result_before()
if before then
  local removed, more = string.match(before, '^(%d+) (%d)$')
  return {tonumber(removed), more}
end

local left, removed, more = tonumber(ARGV[3]), 0, '0'
local due = redis.call('ZRANGEBYSCORE', P .. 'exp', '-inf', now, 'LIMIT', 0, ARGV[4])
if #due == 0 then return {0, '0'} end
if #due == tonumber(ARGV[4]) then more = '1' end
local spaces = {}
for _, ns in ipairs(due) do
  if left == 0 then
    more = '1'
    break
  end
  local s = space(ns)
  prove_types(s)
  s.keys = redis.call('ZRANGEBYSCORE', s.t, '-inf', now, 'LIMIT', 0, left)
  spaces[#spaces + 1] = s
  removed, left = removed + #s.keys, left - #s.keys
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
remember_result(removed .. ' ' .. more)
return {removed, more}
