-- Purpose: write rows: value, vectors, meta, TTL, indexes and change log in one step.
-- KEYS/ARGV[1..2], lane: see common_write.lua, common_life.lua
-- ARGV[3]  format version; ARGV[4] number of buckets; ARGV[5] dims or ''; ARGV[6] embedder id or ''
-- ARGV[7]  N, the number of namespaces; then N namespaces, encoded
-- then six a row: index of its namespace (from 1), key, value, vectors or '', ttl in ms or '' for never, and what it
--          changes of its life, or '' (importance, confidence and a new row's confidence as doubles, NaN: stays; what
--          its type says of its expiry, as flags; length and name of its type, '': both stay; other fields, packed as
--          lifecycle.py does); no row twice
-- Returns  'OK'; {'PLAN', n, ...}: nothing is written, since the nth of the rows are in lines that the writes change, or
--          {'FORMAT', version, buckets, dims, embedder} of the stored data where they differ, and nothing is written
-- Fails before its first write where a key is of another type, and at maxmemory.

if result_before() then return 'OK' end

local other = other_format()
if other then return other end

local spaces, first_row = {}, 8 + tonumber(ARGV[7])
for i = 8, first_row - 1 do
  local s = space(ARGV[i])
  prove_types(s)
  s.rows, s.keys = {}, {}
  spaces[#spaces + 1] = s
end
prove_shared_types()

local function type_of(patch)
  return patch ~= '' and string.sub(patch, 27, 26 + string.byte(patch, 26)) or ''
end

local named = {}
for at = first_row, #ARGV - 2, 6 do
  local s = spaces[tonumber(ARGV[at])]
  named[type_of(ARGV[at + 5])] = true
  s.rows[#s.rows + 1] = at
  s.keys[#s.keys + 1] = ARGV[at + 1]
end
local refusal = too_many_types(named)
if refusal then return refusal end

local function read(s)
  s.olds = s.has_m and redis.call('HMGET', s.m, unpack(s.keys)) or {}
  s.rests = s.has_x and redis.call('HMGET', s.x, unpack(s.keys)) or {}
end

-- What is over, withdrawn, or a guess that becomes none, or the other way, does not keep its place.
local function needs_plan(meta, packed, patch)
  if not intact(meta) or gone(meta) then return false end
  local place = unpack_fields(packed)[FIELD_PLACE]
  if not place then return false end
  if (closes(string.byte(meta, AT_STATUS), string.byte(meta, AT_REASON)) or has(struct.unpack('<H', meta, AT_FLAGS), DATED))
    and has_ended(meta) then return true end
  local index, type_name = string.sub(place, 9), type_of(patch)
  -- A plan that is found begun is one no more, and what held before it is over.
  if has(struct.unpack('<H', meta, AT_FLAGS), AHEAD) and has_begun(meta) then return true end
  return index == 'w' or (type_name ~= '' and (type_name == 'hypothesis') ~= (index == 'h'))
end

local planned = {'PLAN'}
for _, s in ipairs(spaces) do
  read(s)
  for i, at in ipairs(s.rows) do
    if s.olds[i] and s.rests[i] and needs_plan(s.olds[i], s.rests[i], ARGV[at + 5]) then
      planned[#planned + 1] = (at - first_row) / 6
    end
  end
end
if #planned > 1 then return planned end
local rows = (#ARGV - 2 - first_row + 1) / 6
local number = redis.call('INCRBY', P .. 'seq', count(rows)) - rows

write_format()

local huge = math.huge

-- The new meta of a row that `old` is the meta of, if there is one, its other fields, whether a listing has to look
-- at it, and when it expires.
local function renew(s, key, old, rest, content, ttl, size, patch)
  local _, created, recorded, retired, valid_from, valid_until, accessed, confirmed, importance, confidence, boosted
  local accesses, version, type_id, flags, status, reason
  local lives = old and intact(old) and not gone(old)
  if lives then
    created, _, _, _, _, recorded, retired, valid_from, valid_until, accessed, confirmed, importance, confidence,
      boosted, accesses, version, _, type_id, flags, status, reason = struct.unpack(META, old)
    version = version + 1
    -- A sum is NaN where one of its terms is: what something else wrote there is no life to go on with.
    local sum = created + recorded + valid_from + accessed + confirmed + importance + confidence + boosted
    lives = sum == sum
  end
  if lives then
    local is_over = has_ended(old)
    if is_over then
      -- What is over, and in no line, is a word of now.
      valid_from, valid_until, retired, reason = now, huge, huge, 0
      if has(flags, DATED) then flags = flags - DATED end
      if has(flags, END_AHEAD) then flags = flags - END_AHEAD end
      if has(flags, AHEAD) then flags = flags - AHEAD end
    end
    if has(flags, AHEAD) and valid_from <= now then flags = flags - AHEAD end
    local new_status = reason > 0 and SUPERSEDED or ACTIVE
    if is_over or status ~= new_status or lapsed(old) then
      local fields = unpack_fields(rest)
      add_to_trail(fields, old, new_status, reason, valid_from, valid_until, false)
      fields[FIELD_UNTIL] = not is_over and fields[FIELD_UNTIL] or nil
      rest = pack_fields(fields)
    end
    status = new_status
  else
    created, recorded, retired, valid_from, valid_until, accessed, confirmed, importance, confidence, boosted =
      now, now, huge, now, huge, -huge, -huge, .5, .8, now
    accesses, version, type_id, flags, status, reason, rest = 0, 1, 0, 0, ACTIVE, 0, ''
  end
  if has(flags, ABSOLUTE) then flags = flags - ABSOLUTE end
  if patch ~= '' then
    local new_importance, new_confidence, trust, expiry, length = struct.unpack('<dddBB', patch)
    if new_importance == new_importance then importance = new_importance end
    if not lives and trust == trust then confidence = trust end
    if new_confidence == new_confidence then confidence = new_confidence end
    if length > 0 then
      type_id = type_id_of(string.sub(patch, 27, 26 + length))
      if has(flags, ARCHIVES) then flags = flags - ARCHIVES end
      flags = flags + expiry
    end
    local more = string.sub(patch, 27 + length)
    if more ~= '' then
      local fields = unpack_fields(rest)
      for id, value in pairs(unpack_fields(more)) do fields[id] = value end
      rest = pack_fields(fields)
    end
  end
  -- The ttl of what is to come counts from its start.
  local from = has(flags, AHEAD) and math.max(now, valid_from) or now
  local expires = has(flags, PINNED) and huge or from + ttl
  local hidden = is_hidden(type_id > 0 and type_id == type_id_of('hypothesis', true), flags, valid_until, rest)
  return struct.pack(META, created, now, expires, ttl, content, recorded, retired, valid_from, valid_until, accessed,
    confirmed, importance, confidence, boosted, accesses, version, size, type_id, flags, status, reason, 0), rest, hidden,
    has(flags, ARCHIVES) and huge or expires
end

local function append(list, first, second)
  local size = #list
  list[size + 1], list[size + 2] = first, second
end

local function call(command, key, list)
  if #list > 0 then redis.call(command, key, unpack(list)) end
end

-- A row that begins a new life leaves all that the old one was part of. Returns whether any did, so that what was read
-- of others is no longer so.
local function leave_lives(s)
  local left = false
  for i, key in ipairs(s.keys) do
    local old = s.olds[i]
    if old and not (intact(old) and not gone(old)) then
      leave_all(s, key)
      left = true
    elseif old and s.rests[i] and s.rests[i] ~= '' and has_ended(old) then
      -- What is over leaves those that it was chained to.
      local fields = unpack_fields(s.rests[i])
      if fields[FIELD_SUPERSEDES] or fields[FIELD_SUPERSEDED_BY] or fields[FIELD_TOOK] then
        local meta, now_fields = read_life(s, key)
        leave_line(s, key, meta, now_fields)
        for _, name in ipairs({FIELD_SUPERSEDES, FIELD_SUPERSEDED_BY, FIELD_TOOK}) do now_fields[name] = nil end
        write_fields(s, key, now_fields)
        left = true
      end
    end
  end
  return left
end

-- One variadic command for each structure of a namespace: a call from Lua costs more than what it does for one row.
local function write(s)
  if (s.has_x or s.has_o) and leave_lives(s) then read(s) end
  local old, old_rests = s.olds, s.rests
  local metas, values, vectors, contents, expiries = {}, {}, {}, {}, {}
  local plain, timeless, rests, restless, hiding, shown = {}, {}, {}, {}, {}, {}
  for i, at in ipairs(s.rows) do
    local key, value, vector, ttl = ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], tonumber(ARGV[at + 4]) or huge
    local content = number + (at - first_row) / 6 + 1
    local meta, rest, hidden, expires = renew(s, key, old[i], old_rests[i] or '', content, ttl, #value, ARGV[at + 5])
    append(metas, key, meta)
    append(values, key, value)
    append(contents, content, key)
    if hidden then append(hiding, content, key) else shown[#shown + 1] = key end
    if vector ~= '' then append(vectors, key, vector) else plain[#plain + 1] = key end
    if expires < huge then append(expiries, expires, key) else timeless[#timeless + 1] = key end
    if rest ~= '' then append(rests, key, rest) else restless[#restless + 1] = key end
    s.number = math.max(content, s.number or 0)
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
