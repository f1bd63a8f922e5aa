-- Purpose: carry out a change of lives in one namespace, if everything it was planned on is still so.
-- KEYS/ARGV[1..2], lane: see common_write.lua, common_life.lua
-- ARGV[3..6]: see put.lua; ARGV[7] the namespace, encoded; ARGV[8] the change is off from this time on, or ''
-- ARGV[9]  rows it was planned on, three each: key, content number (or '' for absent or gone), revision
-- then a number of fields it was planned on, three each: 's' or 'k', field, value or '' for absent
-- then a number of rows to change, seven each: key, meta with NaN for each time that is to be now (expires_at: now + ttl),
--          packed fields, value or '' to leave it as it is, its index (see common_write.lua), name of the type or '' to leave it, and letters: e
--          where the expiry is to be written (else it stays), l where the row leaves its chain, and its slot too unless
--          there is a c: it keeps a slot that it names, or has it again, if no other row is in it
-- then a number of fields to write, three each: 's' or 'k', field, value or '' to drop it
-- then a number of audit records, five each: actor, action, key, reason, details
-- then a number of keys of rows to remove, and a number of keys of rows to return
-- Returns  {'OK', {meta, value, rest, type} or nil, ...}; {'CONFLICT'} where something is no longer so, or
--          {'FORMAT', ...} as put.lua, and nothing is written
-- Fails before its first write where a key is of another type, and at maxmemory.

local at = 8
local function take()
  at = at + 1
  return ARGV[at]
end
local function take_many(width)
  local all = {}
  for i = 1, tonumber(take()) do
    local one = {}
    for j = 1, width do one[j] = take() end
    all[i] = one
  end
  return all
end
local expected, expected_fields = take_many(3), take_many(3)
local rows, fields, records = take_many(7), take_many(3), take_many(5)
local doomed, wanted = take_many(1), take_many(1)
local ns = ARGV[7]
local s = space(ns)

local function answer()
  local reply, names = {'OK'}, stored_types()
  for i, one in ipairs(wanted) do
    local meta = redis.call('HGET', s.m, one[1])
    reply[i + 1] = meta and intact(meta) and {as_of_now(meta), redis.call('HGET', s.v, one[1]),
      redis.call('HGET', s.x, one[1]), names[struct.unpack('<H', meta, AT_MEMORY_TYPE)] or false}
  end
  return reply
end

if result_before() then return answer() end
local other = other_format()
if other then return other end
prove_types(s)
prove_shared_types()

local conflict = {'CONFLICT'}
if ARGV[8] ~= '' and now >= tonumber(ARGV[8]) then return conflict end
for _, one in ipairs(expected) do
  local meta = redis.call('HGET', s.m, one[1])
  local lives = meta and intact(meta) and not gone(meta)
  if one[2] == '' then
    if lives then return conflict end
  elseif not lives or double(meta, AT_CONTENT) ~= tonumber(one[2])
    or struct.unpack('<H', meta, AT_REVISION) ~= tonumber(one[3]) then
    return conflict
  end
end
for _, one in ipairs(expected_fields) do
  if (redis.call('HGET', s[one[1]], one[2]) or '') ~= one[3] then return conflict end
end
local named = {}
for _, row in ipairs(rows) do named[row[6]] = true end
local refusal = too_many_types(named)
if refusal then return refusal end

-- The first write; one that adds is refused at maxmemory.
if #rows == 0 and #doomed > 0 then
  open_gate()
else
  redis.call('INCRBY', P .. 'seq', 0)
  write_format()
end
for _, row in ipairs(rows) do
  local key = row[1]
  local old = redis.call('HGET', s.m, key)
  if old and (not intact(old) or gone(old)) then
    leave_all(s, key)
  elseif old and s.has_x and string.find(row[7], 'l', 1, true) then
    local life = unpack_fields(redis.call('HGET', s.x, key) or '')
    leave_chain(s, key, life)
    if not string.find(row[7], 'c', 1, true) then leave_slot(s, key, life) end
  end
end

local function or_now(time)
  return time ~= time and now or time
end

local function write(key, planned, packed, value, index, type_name, letters)
  local number = redis.call('INCR', P .. 'seq')
  local created, updated, expires, ttl, content, recorded, retired, valid_from, valid_until, accessed, confirmed,
    importance, confidence, boosted, accesses, version, size, type_id, flags, status, reason =
    struct.unpack(META, planned)
  local old = redis.call('HGET', s.m, key)
  local lives = old and intact(old) and not gone(old)
  created, updated, recorded, retired = or_now(created), or_now(updated), or_now(recorded), or_now(retired)
  valid_from, valid_until, confirmed, boosted = or_now(valid_from), or_now(valid_until), or_now(confirmed), or_now(boosted)
  local revision, sets_expiry, life = 0, string.find(letters, 'e', 1, true), unpack_fields(packed)
  if lives then
    -- What reads have changed since is no part of the plan.
    accessed, accesses = double(old, AT_ACCESSED_AT), struct.unpack('<I4', old, AT_ACCESS_COUNT)
    revision = (struct.unpack('<H', old, AT_REVISION) + 1) % 65536
    if not sets_expiry then expires = double(old, AT_EXPIRES_AT) end
    if type_name == '' then type_id = struct.unpack('<H', old, AT_MEMORY_TYPE) end
  end
  if string.find(letters, 'c', 1, true) then reclaim_slot(s, key, life) end
  if sets_expiry then expires = has(flags, PINNED) and math.huge or (expires ~= expires and now + ttl or expires) end
  if lives then add_to_trail(life, old, status, reason, valid_until, has(flags, ARCHIVES) and expires <= now) end
  packed = pack_fields(life)
  if type_name ~= '' then type_id = type_id_of(type_name) end
  if value ~= '' then
    content, size = number, #value
    redis.call('HSET', s.v, key, value)
    write_index(s, key, index)
    redis.call('ZREM', s.d, key)
    redis.call('ZREM', s.l, key)
  else
    redis.call('ZADD', s.l, number, key)
  end
  redis.call('HSET', s.m, key, struct.pack(META, created, updated, expires, ttl, content, recorded, retired, valid_from,
    valid_until, accessed, confirmed, importance, confidence, boosted, accesses, version, size, type_id, flags, status,
    reason, revision))
  if packed == '' then redis.call('HDEL', s.x, key) else redis.call('HSET', s.x, key, packed) end
  local shown = status == ACTIVE or (status == SUPERSEDED and valid_until > now)
  redis.call('ZADD', shown and s.c or s.z, content, key)
  redis.call('ZREM', shown and s.z or s.c, key)
  local hidden = shown and is_hidden(type_id > 0 and type_id == type_id_of('hypothesis', true), flags, valid_from,
    valid_until, packed)
  if hidden then redis.call('ZADD', s.h, content, key) else redis.call('ZREM', s.h, key) end
  if expires < math.huge and not has(flags, ARCHIVES) then
    redis.call('ZADD', s.t, expires, key)
  else
    redis.call('ZREM', s.t, key)
  end
  s.number = math.max(number, s.number or 0)
end

for _, one in ipairs(doomed) do
  if redis.call('HEXISTS', s.m, one[1]) == 1 then remove(s, one[1]) end
end
for _, row in ipairs(rows) do write(unpack(row)) end
for _, one in ipairs(fields) do
  if one[3] == '' then redis.call('HDEL', s[one[1]], one[2]) else redis.call('HSET', s[one[1]], one[2], one[3]) end
end
for _, one in ipairs(records) do audit(ns, unpack(one)) end
if #rows > 0 then
  redis.call('ZADD', P .. 'nsl', 0, ns)
  redis.call('ZREM', P .. 'dead', ns)
elseif #fields > 0 and redis.call('ZCARD', s.c) + redis.call('ZCARD', s.z) == 0 then
  -- A namespace that has aliases alone is known all the same, or nothing would ever find them.
  redis.call('ZADD', P .. 'nsl', 0, ns)
  s.number = s.number or redis.call('INCR', P .. 'seq')
end
after_removals(s)
write_changes()
remember_result('OK')
return answer()
