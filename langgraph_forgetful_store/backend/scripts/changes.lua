-- Purpose: what has changed below a prefix since a change number.
-- KEYS/ARGV[1..2]: see common.lua; read only
-- ARGV[3]  encoded prefix; ARGV[4] change number; ARGV[5] changes at the most
-- ARGV[6]  '1': return vectors; ARGV[7] return values of up to this many bytes, 0 for none
-- Returns  {change number of the store, '1' where it can't tell (pruned, gone back, or too many),
--          {namespace, {keys gone from the active rows}, {key, meta, vectors, value, rest}, ...}, ...}
-- Reads c:, z:, d:, l:, m:, e:, v: and x: of the namespaces it finds, all under the prefix in KEYS[1].

local prefix, since, most = ARGV[3], ARGV[4], tonumber(ARGV[5])
local with_vectors, value_bytes = ARGV[6] == '1', tonumber(ARGV[7])
local seq = redis.call('GET', P .. 'seq') or '0'
local reply = {seq, '0'}
local since_number = tonumber(since)

local function cannot_tell()
  return {seq, '1'}
end

if tonumber(seq) < since_number then return cannot_tell() end
if tonumber(redis.call('HGET', P .. 'flr', '') or '0') > since_number then return cannot_tell() end
local changed = redis.call('ZRANGEBYSCORE', P .. 'nsv', '(' .. since, '+inf', 'LIMIT', 0, most + 1)
if #changed > most then return cannot_tell() end
for _, ns in ipairs(changed) do
  if string.sub(ns, 1, #prefix) == prefix then
    if tonumber(redis.call('HGET', P .. 'flr', ns) or '0') > since_number then return cannot_tell() end
    local s = space(ns)
    local lost = {}
    local group = {ns, lost}
    for _, log in ipairs({s.d, s.z}) do
      for _, key in ipairs(redis.call('ZRANGEBYSCORE', log, '(' .. since, '+inf', 'LIMIT', 0, most + 1)) do
        lost[#lost + 1] = key
      end
    end
    local keys, seen = {}, {}
    for _, log in ipairs({s.c, s.l}) do
      for _, key in ipairs(redis.call('ZRANGEBYSCORE', log, '(' .. since, '+inf', 'LIMIT', 0, most + 1)) do
        if not seen[key] then
          seen[key] = true
          keys[#keys + 1] = key
        end
      end
    end
    most = most - #lost - #keys
    if most < 0 then return cannot_tell() end
    for _, key in ipairs(keys) do
      local meta = redis.call('HGET', s.m, key)
      if meta then
        if (intact(meta) and gone(meta)) or not redis.call('ZSCORE', s.c, key) then
          lost[#lost + 1] = key
        else
          local value = false
          if value_bytes > 0 and intact(meta) and struct.unpack('<I4', meta, AT_VALUE_BYTES) <= value_bytes then
            value = redis.call('HGET', s.v, key)
          end
          group[#group + 1] = {key, meta, with_vectors and redis.call('HGET', s.e, key), value,
            redis.call('HGET', s.x, key)}
        end
      end
    end
    reply[#reply + 1] = group
  end
end
return reply
