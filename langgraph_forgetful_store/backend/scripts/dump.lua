-- Purpose: read the bytes that lie below the store's prefix, key by key, step by step.
-- KEYS/ARGV[1..2]: see common.lua; read only
-- ARGV[3]  'keys': the names of keys; 'key': what is in one; ARGV[4] that key; ARGV[5] cursor, '0' at first
-- Returns  {next cursor, or '0' at the end, bytes, ...}

local cursor, key = ARGV[5], ARGV[4]
if ARGV[3] == 'keys' then
  local pattern = string.gsub(P, '[%*%?%[%]%\\]', '\\%0') .. '*'
  local found = redis.call('SCAN', cursor, 'MATCH', pattern, 'COUNT', 1000)
  return {found[1], unpack(found[2])}
end
local kind = redis.call('TYPE', key).ok
if kind == 'string' then return {'0', redis.call('GET', key)} end
if kind == 'hash' then
  local found = redis.call('HSCAN', key, cursor, 'COUNT', 200)
  return {found[1], table.concat(found[2], '\n')}
end
if kind == 'zset' then
  local found = redis.call('ZSCAN', key, cursor, 'COUNT', 200)
  return {found[1], table.concat(found[2], '\n')}
end
return {'0'}
