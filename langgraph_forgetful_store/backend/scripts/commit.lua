-- Purpose: carry out a planned change in one namespace, if everything it relied on is still so.
-- KEYS/ARGV[1..2], lane: see common_write.lua, common_life.lua
-- ARGV[3..6]: see put.lua; ARGV[7] the namespace, encoded; ARGV[8] the change is off from this time on, or ''
-- ARGV[9]  a number of rows it relied on, three each: key, content number (or '' for absent or gone; behind an x where it may
--          be gone), revision
-- then a number of fields of s:, two each: field, value or '' for absent
-- then a number of parts of o:: first and last entry (between these it reached), how many entries, and each
-- then a number of rows to write, seven each: key, meta (content number, revision and accesses are kept where it lives),
--          packed fields (a place number of 0 is the row's change number), value or '' to leave it as it is, its index (see
--          common_write.lua), name of the type or '' to leave it, and letters: e where its expiry is to be written (else
--          it stays), x where it is to be changed although it is gone
-- then a number of fields of s: to write, two each: field, value or '' to drop it
-- then a number of entries of o: to add, and a number of entries to take away
-- then a number of audit records, five each: actor, action, key, reason, details
-- then a number of keys of rows to remove, '1' where they are to leave no tombstone, and a number of keys of rows to return
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
local function take_parts()
  local all = {}
  for i = 1, tonumber(take()) do
    all[i] = {take(), take(), take_many(1)}
  end
  return all
end
local expected, expected_fields, parts = take_many(3), take_many(2), take_parts()
local rows, fields, more, less, records = take_many(7), take_many(2), take_many(1), take_many(1), take_many(5)
local doomed, is_silent, wanted = take_many(1), take() == '1', take_many(1)
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
  local may_be_gone = string.sub(one[2], 1, 1) == 'x'
  local lives = meta and intact(meta) and (may_be_gone or not gone(meta))
  if one[2] == '' then
    if lives then return conflict end
  elseif not lives or double(meta, AT_CONTENT) ~= tonumber((string.gsub(one[2], 'x', '')))
    or struct.unpack('<H', meta, AT_REVISION) ~= tonumber(one[3]) then
    return conflict
  end
end
for _, one in ipairs(expected_fields) do
  if (redis.call('HGET', s.s, one[1]) or '') ~= one[2] then return conflict end
end
for _, part in ipairs(parts) do
  local found = redis.call('ZRANGEBYLEX', s.o, '[' .. part[1], '[' .. part[2], 'LIMIT', 0, #part[3] + 1)
  if #found ~= #part[3] then return conflict end
  for i, entry in ipairs(found) do
    if entry ~= part[3][i][1] then return conflict end
  end
end
local named = {}
for _, row in ipairs(rows) do named[row[6]] = true end
local refusal = too_many_types(named)
if refusal then return refusal end

-- The first write; one that adds is refused at maxmemory.
if #rows == 0 and (#doomed > 0 or is_silent) then
  open_gate()
else
  redis.call('INCRBY', P .. 'seq', 0)
  write_format()
end
for _, row in ipairs(rows) do
  local old = redis.call('HGET', s.m, row[1])
  if old and (not intact(old) or (gone(old) and not string.find(row[7], 'x', 1, true))) then leave_all(s, row[1]) end
end

local function move(key, life, valid_from, old, old_life, number)
  local entry, old_entry, run, old_run
  if old then
    old_entry, old_run = entry_of(old_life, key, double(old, AT_VALID_FROM)), old_life[FIELD_RUN_ID]
  end
  if life[FIELD_PLACE] and struct.unpack('<d', life[FIELD_PLACE]) == 0 then
    life[FIELD_PLACE] = struct.pack('<d', number) .. string.sub(life[FIELD_PLACE], 9)
  end
  entry, run = entry_of(life, key, valid_from), life[FIELD_RUN_ID]
  if old_entry and old_entry ~= entry then redis.call('ZREM', s.o, old_entry) end
  if entry and old_entry ~= entry then redis.call('ZADD', s.o, 0, entry) end
  if old_run and old_run ~= run then redis.call('ZREM', P .. 'r:' .. old_run, run_entry(s, key)) end
  if run and old_run ~= run then redis.call('ZADD', P .. 'r:' .. run, 0, run_entry(s, key)) end
end

local written = {}
for _, row in ipairs(rows) do written[row[1]] = true end

-- A row that names another no more is named by it no more; the other may stand in a line that the plan did not see.
local function let_go(key, was, life)
  for field, back in pairs({[FIELD_SUPERSEDED_BY] = FIELD_SUPERSEDES, [FIELD_SUPERSEDES] = FIELD_SUPERSEDED_BY}) do
    local other = was[field]
    if other and other ~= life[field] and not written[other] then point(s, other, back, key, nil) end
  end
end

local function write(key, planned, packed, value, index, type_name, letters)
  local number = redis.call('INCR', P .. 'seq')
  local created, updated, expires, ttl, content, recorded, retired, valid_from, valid_until, accessed, confirmed,
    importance, confidence, boosted, accesses, version, size, type_id, flags, status, reason =
    struct.unpack(META, planned)
  local old = redis.call('HGET', s.m, key)
  local lives = old and intact(old) and (not gone(old) or string.find(letters, 'x', 1, true) ~= nil)
  local revision, life = 0, unpack_fields(packed)
  if lives then
    -- What reads have changed since is no part of the plan.
    accessed, accesses = double(old, AT_ACCESSED_AT), struct.unpack('<I4', old, AT_ACCESS_COUNT)
    revision = (struct.unpack('<H', old, AT_REVISION) + 1) % 65536
    if not string.find(letters, 'e', 1, true) then expires = double(old, AT_EXPIRES_AT) end
    if type_name == '' then type_id = struct.unpack('<H', old, AT_MEMORY_TYPE) end
  end
  if lives then add_to_trail(life, old, status, reason, valid_from, valid_until, has(flags, ARCHIVES) and expires <= now) end
  local old_life = lives and unpack_fields(redis.call('HGET', s.x, key) or '')
  if lives then let_go(key, old_life, life) end
  move(key, life, valid_from, lives and old, old_life, number)
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
  local meta = struct.pack(META, created, updated, expires, ttl, content, recorded, retired, valid_from, valid_until,
    accessed, confirmed, importance, confidence, boosted, accesses, version, size, type_id, flags, status, reason, revision)
  redis.call('HSET', s.m, key, meta)
  if packed == '' then redis.call('HDEL', s.x, key) else redis.call('HSET', s.x, key, packed) end
  -- What ends by the clock may hold again by a clock that steps back.
  local shown = status == ACTIVE or (status == SUPERSEDED and (has(flags, END_AHEAD) or not has_ended(meta)))
  redis.call('ZADD', shown and s.c or s.z, content, key)
  redis.call('ZREM', shown and s.z or s.c, key)
  local hidden = shown and is_hidden(type_id > 0 and type_id == type_id_of('hypothesis', true), flags, valid_until, packed)
  if hidden then redis.call('ZADD', s.h, content, key) else redis.call('ZREM', s.h, key) end
  if expires < math.huge and not has(flags, ARCHIVES) then
    redis.call('ZADD', s.t, expires, key)
  else
    redis.call('ZREM', s.t, key)
  end
  s.number = math.max(number, s.number or 0)
end

if #doomed > 1 then
  s.doomed = {}
  for _, one in ipairs(doomed) do s.doomed[one[1]] = true end
end
for _, one in ipairs(doomed) do
  if redis.call('HEXISTS', s.m, one[1]) == 1 then
    remove(s, one[1], is_silent)
  elseif is_silent then
    -- It was deleted before: its name goes from the log, too.
    local number = redis.call('ZSCORE', s.d, one[1])
    if number and redis.call('ZREM', s.d, one[1]) == 1 then
      local floor = tonumber(redis.call('HGET', P .. 'flr', ns) or '0')
      redis.call('HSET', P .. 'flr', ns, count(math.max(floor, tonumber(number))))
    end
  end
end
for _, row in ipairs(rows) do write(unpack(row)) end
for _, one in ipairs(fields) do
  if one[2] == '' then redis.call('HDEL', s.s, one[1]) else redis.call('HSET', s.s, one[1], one[2]) end
end
for _, one in ipairs(less) do redis.call('ZREM', s.o, one[1]) end
for _, one in ipairs(more) do redis.call('ZADD', s.o, 0, one[1]) end
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
