-- Purpose: what has changed below a prefix since a change number, page by page.
-- KEYS/ARGV[1..2]: see common.lua; read only
-- ARGV[3]  encoded prefix; ARGV[4] change number, '-1' to ask for no changes; ARGV[5] changes a page at about the most
-- ARGV[6]  '1': return vectors; ARGV[7] return values of up to this many bytes, 0 for none
-- ARGV[8]  page on from namespaces that last changed after this number: ARGV[4] at first
-- ARGV[9]  bytes after which a page ends; what one namespace has is not divided, but never eight times as much
-- ARGV[10] '1': archived and superseded rows are told too; else they are gone; 'e': expired ones are told, too, as long as
--          they are there
-- Returns  {time, change number of the store, epoch, replication id or '' where INFO is not allowed, memory types,
--          'done', 'more' or 'reload' (pruned, gone back, or too many or too large changes in one namespace), number to page on from,
--          {namespace, {keys gone from the active rows}, {key, meta, vectors, value, rest}, ...}, ...}
-- A namespace that changes between two pages moves behind the page, so on the last page everything is as it is then.
-- Reads c:, z:, d:, l:, m:, e:, v: and x: of the namespaces it finds, all under the prefix in KEYS[1].

local prefix, since, most = ARGV[3], ARGV[4], tonumber(ARGV[5])
local with_vectors, value_bytes, from = ARGV[6] == '1', tonumber(ARGV[7]), ARGV[8]
local with_closed, with_expired = ARGV[10] == '1', ARGV[10] == 'e'
local seq = redis.call('GET', P .. 'seq') or '0'
local info = redis.pcall('INFO', 'replication')
local replication = type(info) == 'string' and string.match(info, 'master_replid:(%w+)') or ''
local format = redis.call('HMGET', P .. 'fmt', 'epoch', 'types')
local reply = {string.format('%.0f', now), seq, format[1], replication, format[2], 'done', since}
local since_number, seq_number = tonumber(since), tonumber(seq)
if not seq_number then return redis.error_reply('ERR value is not an integer: ' .. P .. 'seq') end

local function reload()
  return {reply[1], seq, reply[3], replication, reply[5], 'reload', since}
end

if since_number < 0 or seq_number < since_number then return reload() end
local last, floor = redis.call('HGET', P .. 'pv', prefix), tonumber(redis.call('HGET', P .. 'flr', '') or '0')
-- Without a last change, nothing was ever here, or the namespaces have died since and what told of it is pruned.
if from == since and (last and tonumber(last) or floor) <= since_number then return reply end
if floor > since_number then return reload() end

local function since_then(log, limit)
  return redis.call('ZRANGEBYSCORE', log, '(' .. since, '+inf', 'LIMIT', 0, limit)
end

local touched = redis.call('ZRANGEBYSCORE', P .. 'nsv', '(' .. from, '+inf', 'WITHSCORES', 'LIMIT', 0, most)
local left, bytes_left = most, tonumber(ARGV[9])
local most_bytes = 8 * bytes_left
for i = 1, #touched, 2 do
  local ns = touched[i]
  if string.sub(ns, 1, #prefix) == prefix then
    if tonumber(redis.call('HGET', P .. 'flr', ns) or '0') > since_number then return reload() end
    local s = space(ns)
    local lost, group, bytes = {}, {ns, {}}, 0
    for _, log in ipairs(with_closed and {s.d} or {s.d, s.z}) do
      for _, key in ipairs(since_then(log, most + 1)) do
        lost[#lost + 1] = key
      end
    end
    local keys, seen = {}, {}
    for _, log in ipairs(with_closed and {s.c, s.z, s.l} or {s.c, s.l}) do
      for _, key in ipairs(since_then(log, most + 1)) do
        if not seen[key] then
          seen[key] = true
          keys[#keys + 1] = key
        end
      end
    end
    if #lost > most or #keys > most then return reload() end
    for _, key in ipairs(keys) do
      local meta = redis.call('HGET', s.m, key)
      if meta then
        if (not with_expired and intact(meta) and gone(meta)) or not (with_closed or redis.call('ZSCORE', s.c, key)) then
          lost[#lost + 1] = key
        else
          local size = intact(meta) and struct.unpack('<I4', meta, AT_VALUE_BYTES) or math.huge
          local wanted = value_bytes > 0 and size <= value_bytes
          local vectors = with_vectors and redis.call('HGET', s.e, key)
          bytes = bytes + #meta + (vectors and #vectors or 0) + (wanted and size or 0)
          if bytes > most_bytes and #group > 2 then return reload() end
          group[#group + 1] = {key, meta, vectors, wanted and redis.call('HGET', s.v, key), redis.call('HGET', s.x, key)}
        end
      end
    end
    group[2] = lost
    reply[#reply + 1] = group
    left, bytes_left = left - #lost - #keys, bytes_left - bytes
  end
  reply[7] = touched[i + 1]
  if (left <= 0 or bytes_left <= 0) and i + 1 < #touched then
    reply[6] = 'more'
    return reply
  end
end
if #touched == 2 * most then reply[6] = 'more' end
return reply
