-- Purpose: write rows: value, vectors, meta, TTL, indexes and change log in one step.
-- KEYS/ARGV[1..2], lane: see common_write.lua
-- ARGV[3]  format version; ARGV[4] number of buckets; ARGV[5] dims or ''; ARGV[6] embedder id or ''
-- ARGV[7]  N, the number of namespaces; then N namespaces, encoded
-- then six a row: index of its namespace (from 1), key, value, vectors or '', ttl in ms or '' for never, and what it
--          changes of its life, or '' (importance, confidence and a new row's confidence as doubles, NaN: stays; length
--          and name of its type, '': stays; other fields, packed as lifecycle.py does); no row twice
-- Returns  'OK', or {'FORMAT', version, buckets, dims, embedder} of the stored data where they differ: nothing is written.
-- Fails before its first write where a key is of another type, and at maxmemory.

if result_before() then return 'OK' end

local MOST_TYPES = 1024

local format = redis.call('HMGET', P .. 'fmt', 'version', 'buckets', 'dims', 'embedder')
if (format[1] and (format[1] ~= ARGV[3] or format[2] ~= ARGV[4]))
  or (ARGV[5] ~= '' and format[3] and (format[3] ~= ARGV[5] or format[4] ~= ARGV[6])) then
  return {'FORMAT', format[1], format[2] or '', format[3] or '', format[4] or ''}
end

local spaces, first_row = {}, 8 + tonumber(ARGV[7])
for i = 8, first_row - 1 do
  local s = space(ARGV[i])
  prove_types(s)
  s.rows, s.keys = {}, {}
  spaces[#spaces + 1] = s
end
prove_shared_types()

local named = {}
for at = first_row, #ARGV - 2, 6 do
  local s, patch = spaces[tonumber(ARGV[at])], ARGV[at + 5]
  if patch ~= '' then named[string.sub(patch, 26, 25 + string.byte(patch, 25))] = true end
  s.rows[#s.rows + 1] = at
  s.keys[#s.keys + 1] = ARGV[at + 1]
end
named[''], named['generic'] = nil, nil
if next(named) then
  local types = 0
  for known in string.gmatch(redis.call('HGET', P .. 'fmt', 'types') or '', '[^%z]+') do
    types, named[known] = types + 1, nil
  end
  for _ in pairs(named) do types = types + 1 end
  -- Every client keeps them all, and their ids have 16 bits.
  if types > MOST_TYPES then return redis.error_reply('ERR too many memory types: at most ' .. MOST_TYPES) end
end
local rows = (#ARGV - 2 - first_row + 1) / 6
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

-- The id of a memory type; a new one is given the next, unless it is only asked for.
local type_ids
local function type_id_of(name, only_ask)
  if name == 'generic' then return 0 end
  if not type_ids then
    type_ids = {count = 0, names = redis.call('HGET', P .. 'fmt', 'types') or ''}
    for known in string.gmatch(type_ids.names, '[^%z]+') do
      type_ids.count = type_ids.count + 1
      type_ids[known] = type_ids.count
    end
  end
  if not type_ids[name] and not only_ask then
    type_ids.count = type_ids.count + 1
    type_ids[name] = type_ids.count
    type_ids.names = type_ids.names .. name .. '\0'
    redis.call('HSET', P .. 'fmt', 'types', type_ids.names)
  end
  return type_ids[name]
end

-- The other fields of a life, those of `more` in place of those of `old`, and whether a run is among them.
local function merged(old, more)
  local order, blobs = {}, {}
  for _, packed in ipairs({old, more}) do
    local at = 1
    while at <= #packed do
      local id, length = struct.unpack('<BI4', packed, at)
      if not blobs[id] then order[#order + 1] = id end
      blobs[id] = string.sub(packed, at, at + 4 + length)
      at = at + 5 + length
    end
  end
  for i, id in ipairs(order) do order[i] = blobs[id] end
  return table.concat(order), blobs[FIELD_RUN_ID] ~= nil
end

-- The new meta of a row that `old` is the meta of, if there is one, its other fields, and whether it goes on living.
local function renew(old, rest, content, ttl, size, patch)
  local _, created, recorded, valid_from, accessed, confirmed, importance, confidence, boosted
  local accesses, version, type_id, flags
  local lives = old and intact(old) and not gone(old)
  if lives then
    created, _, _, _, _, recorded, _, valid_from, _, accessed, confirmed, importance, confidence, boosted,
      accesses, version, _, type_id, flags = struct.unpack(META, old)
    version = version + 1
    -- A sum is NaN where one of its terms is: what something else wrote there is no life to go on with.
    local sum = created + recorded + valid_from + accessed + confirmed + importance + confidence + boosted
    lives = sum == sum
  end
  if not lives then
    created, recorded, valid_from, accessed, confirmed, importance, confidence, boosted =
      now, now, now, -huge, -huge, .5, .8, now
    accesses, version, type_id, flags, rest = 0, 1, 0, 0, ''
  end
  if patch ~= '' then
    local new_importance, new_confidence, trust, length = struct.unpack('<dddB', patch)
    if new_importance == new_importance then importance = new_importance end
    if not lives and trust == trust then confidence = trust end
    if new_confidence == new_confidence then confidence = new_confidence end
    if length > 0 then type_id = type_id_of(string.sub(patch, 26, 25 + length)) end
    local bound
    rest, bound = merged(rest, string.sub(patch, 26 + length))
    if bound and flags % (RUN + RUN) < RUN then flags = flags + RUN end
  end
  -- A field that just looks like such a tag costs its namespace the direct way to a listing, and nothing else.
  local hidden = flags % (RUN + RUN) >= RUN or (type_id > 0 and type_id == type_id_of('hypothesis', true))
    or string.find(rest, '"_only_in_context_', 1, true) ~= nil
  return struct.pack(META, created, now, now + ttl, ttl, content, recorded, huge, valid_from, huge, accessed,
    confirmed, importance, confidence, boosted, accesses, version, size, type_id, flags, 0, 0, RESERVED), rest, hidden
end

local function append(list, first, second)
  local size = #list
  list[size + 1], list[size + 2] = first, second
end

local function call(command, key, list)
  if #list > 0 then redis.call(command, key, unpack(list)) end
end

-- One variadic command for each structure of a namespace: a call from Lua costs more than what it does for one row.
local function write(s)
  local old = s.has_m and redis.call('HMGET', s.m, unpack(s.keys)) or {}
  local metas, values, vectors, contents, expiries = {}, {}, {}, {}, {}
  local plain, timeless, rests, restless, hiding, shown = {}, {}, {}, {}, {}, {}
  local old_rests = s.has_x and redis.call('HMGET', s.x, unpack(s.keys)) or {}
  for i, at in ipairs(s.rows) do
    local key, value, vector, ttl = ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], tonumber(ARGV[at + 4]) or huge
    local content = number + (at - first_row) / 6 + 1
    local meta, rest, hidden = renew(old[i], old_rests[i] or '', content, ttl, #value, ARGV[at + 5])
    append(metas, key, meta)
    append(values, key, value)
    append(contents, content, key)
    if hidden then append(hiding, content, key) else shown[#shown + 1] = key end
    if vector ~= '' then append(vectors, key, vector) else plain[#plain + 1] = key end
    if ttl < huge then append(expiries, now + ttl, key) else timeless[#timeless + 1] = key end
    if rest ~= '' then append(rests, key, rest) else restless[#restless + 1] = key end
    s.number = content
  end
  call('HSET', s.m, metas)
  call('HSET', s.v, values)
  call('HSET', s.e, vectors)
  if s.has_e then call('HDEL', s.e, plain) end
  call('HSET', s.x, rests)
  if s.has_x then call('HDEL', s.x, restless) end
  call('ZADD', s.c, contents)
  call('ZADD', s.h, hiding)
  if s.has_h then call('ZREM', s.h, shown) end
  if s.has_z then call('ZREM', s.z, s.keys) end
  if s.has_l then call('ZREM', s.l, s.keys) end
  if s.has_d then call('ZREM', s.d, s.keys) end
  call('ZADD', s.t, expiries)
  if s.has_t then call('ZREM', s.t, timeless) end
  if s.has_t or #expiries > 0 then note_expiry(s) end
  redis.call('ZADD', P .. 'nsl', 0, s.ns)
  redis.call('ZREM', P .. 'dead', s.ns)
  note_change(s.ns, s.number)
end

for _, s in ipairs(spaces) do
  write(s)
end
write_changes()
remember_result('')
return 'OK'
