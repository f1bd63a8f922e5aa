-- Purpose: write rows: value, vectors, meta, TTL, indexes and change log in one step.
-- KEYS/ARGV[1..2], lane: see common_write.lua
-- ARGV[3]  format version; ARGV[4] number of buckets; ARGV[5] dims or ''; ARGV[6] embedder id or ''
-- ARGV[7]  N, the number of namespaces; then N namespaces, encoded
-- then five a row: index of its namespace (from 1), key, value, vectors or '', ttl in ms or '' for never
-- Returns  'OK', or {'FORMAT', version, buckets, dims, embedder} of the stored data where they differ: nothing is written.
-- Fails before its first write where a key is of another type, and at maxmemory.

if result_before() then return 'OK' end

local format = redis.call('HMGET', P .. 'fmt', 'version', 'buckets', 'dims', 'embedder')
if (format[1] and (format[1] ~= ARGV[3] or format[2] ~= ARGV[4]))
  or (ARGV[5] ~= '' and format[3] and (format[3] ~= ARGV[5] or format[4] ~= ARGV[6])) then
  return {'FORMAT', format[1], format[2] or '', format[3] or '', format[4] or ''}
end

local spaces, first_row = {}, 8 + tonumber(ARGV[7])
for i = 8, first_row - 1 do
  local s = space(ARGV[i])
  prove_types(s)
  spaces[#spaces + 1] = s
end
prove_shared_types()

local rows = (#ARGV - 2 - first_row + 1) / 5
local number = redis.call('INCRBY', P .. 'seq', count(rows)) - rows

if not format[1] then
  -- The epoch tells data that were flushed and written anew from those that a client has cached.
  redis.call('HSET', P .. 'fmt', 'version', ARGV[3], 'buckets', ARGV[4],
    'epoch', ARGV[#ARGV - 1] .. '/' .. ARGV[#ARGV] .. '/' .. count(now))
end
if ARGV[5] ~= '' and not format[3] then
  redis.call('HSET', P .. 'fmt', 'dims', ARGV[5], 'embedder', ARGV[6])
end

local huge = math.huge
for at = first_row, #ARGV - 2, 5 do
  local s, key, value, vectors = spaces[tonumber(ARGV[at])], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  local ttl = tonumber(ARGV[at + 4]) or huge
  number = number + 1
  s.number = number
  local created, recorded, accessed, confirmed, valid_from = now, now, -huge, -huge, now
  local importance, confidence, boosted, accesses, version, type_id, flags = .5, .8, now, 0, 1, 0, 0
  local old = redis.call('HGET', s.m, key)
  if old and intact(old) and not gone(old) then
    local _
    created, _, _, _, _, recorded, _, valid_from, _, accessed, confirmed, importance, confidence, boosted,
      accesses, version, _, type_id, flags = struct.unpack(META, old)
    version = version + 1
  elseif s.has_x then
    redis.call('HDEL', s.x, key)
  end
  redis.call('HSET', s.m, key, struct.pack(META, created, now, now + ttl, ttl, number, recorded, huge, valid_from,
    huge, accessed, confirmed, importance, confidence, boosted, accesses, version, #value, type_id, flags, 0, 0,
    RESERVED))
  redis.call('HSET', s.v, key, value)
  if vectors ~= '' then
    redis.call('HSET', s.e, key, vectors)
  elseif s.has_e then
    redis.call('HDEL', s.e, key)
  end
  redis.call('ZADD', s.c, number, key)
  if s.has_z then redis.call('ZREM', s.z, key) end
  if s.has_l then redis.call('ZREM', s.l, key) end
  if s.has_d then redis.call('ZREM', s.d, key) end
  if ttl < huge then
    redis.call('ZADD', s.t, now + ttl, key)
    s.timed = true
  elseif s.has_t then
    redis.call('ZREM', s.t, key)
    s.timed = true
  end
end

for _, s in ipairs(spaces) do
  if s.number then
    if s.timed then note_expiry(s) end
    redis.call('ZADD', P .. 'nsl', 0, s.ns)
    redis.call('ZREM', P .. 'dead', s.ns)
    note_change(s.ns, s.number)
  end
end
write_changes()
remember_result('')
return 'OK'
