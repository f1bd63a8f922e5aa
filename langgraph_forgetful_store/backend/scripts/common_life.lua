-- Purpose: what scripts share that end, renew or change the life of a row: its fields, its line and its links.
--          Stands below common_write.lua.
-- KEYS/ARGV[1..2], lane: see common_write.lua
--
-- s:<ns> holds 'a' name -> the subject it stands for, and 'u' name -> what `unalias` needs.
-- o:<ns> holds, all with score 0, so in the order of their bytes:
--   index, owner, start, place number, key    a row in an index (lines.py): b: the line of permanent rows; r: that of a
--                                             run, whose id with its length stands behind the owner; d, h, w: rows
--                                             beside the lines (dated, guesses, withdrawn plans)
--   g subject NUL name                        a name that stands for a subject
--   k length of key, key, direction, relation NUL other    one half of a link
-- An owner is a slot (NUL subject NUL attribute NUL), or what a chain without one is called (SOH and 8 bytes).

-- The packed fields of a life, by their ids.
local function unpack_fields(packed)
  local fields, at = {}, 1
  while at + 4 <= #packed do
    local id, length = struct.unpack('<BI4', packed, at)
    fields[id] = string.sub(packed, at + 5, at + 4 + length)
    at = at + 5 + length
  end
  return fields
end

local function pack_fields(fields)
  local ids = {}
  for id in pairs(fields) do ids[#ids + 1] = id end
  table.sort(ids)
  for i, id in ipairs(ids) do ids[i] = struct.pack('<BI4', id, #fields[id]) .. fields[id] end
  return table.concat(ids)
end

-- What the store has thought of a row, and since when: status, end and start of validity; the latest entries are kept.
local TRAIL_BYTES, KEEP_TRAIL = 25, 256
local function step(status, reason)
  return status == ARCHIVED and reason > 0 and CLOSING or status
end

local function add_to_trail(fields, old, status, reason, valid_from, valid_until, is_lapsed)
  local trail, was_lapsed = fields[FIELD_TRAIL] or '', lapsed(old)
  local old_status, old_reason = string.byte(old, AT_STATUS), string.byte(old, AT_REASON)
  local old_from, old_until = double(old, AT_VALID_FROM), double(old, AT_VALID_UNTIL)
  local before, after = step(old_status, old_reason), step(status, reason)
  if before == after and old_from == valid_from and old_until == valid_until and (is_lapsed or not was_lapsed) then return end
  if trail == '' then trail = struct.pack('<dBdd', double(old, AT_RECORDED_AT), before, old_until, old_from) end
  -- The expiry that has archived it may be written over.
  if was_lapsed and old_status ~= ARCHIVED then
    local archived = closes(old_status, old_reason) and CLOSING or ARCHIVED
    trail = trail .. struct.pack('<dBdd', double(old, AT_EXPIRES_AT), archived, old_until, old_from)
  end
  trail = trail .. struct.pack('<dBdd', now, after, valid_until, valid_from)
  fields[FIELD_TRAIL] = string.sub(trail, -KEEP_TRAIL * TRAIL_BYTES)
end

-- Whether a listing has to look at the row before it may show it.
local function is_hidden(type_is_hypothesis, flags, valid_until, rest)
  return type_is_hypothesis or has(flags, RUN) or has(flags, ARCHIVES) or has(flags, AHEAD) or valid_until < math.huge
    or string.find(rest, '"_only_in_context_', 1, true) ~= nil
end

-- The entry of a row in o:, or nil where it is in no index.
local function entry_of(fields, key, valid_from)
  local place = fields[FIELD_PLACE]
  if not place then return nil end
  local number, index = struct.unpack('<dc1', place)
  local owner = fields[FIELD_CHAIN] and '\1' .. fields[FIELD_CHAIN]
    or '\0' .. (fields[FIELD_SUBJECT] or '') .. '\0' .. (fields[FIELD_ATTRIBUTE] or '') .. '\0'
  local run = index == 'r' and fields[FIELD_RUN_ID] or ''
  if index == 'r' then run = struct.pack('>I4', #run) .. run end
  return index .. owner .. run .. sortable(valid_from) .. sortable(number) .. key
end

-- Logs a row that has changed without being written.
local function log_change(s, key)
  s.number = redis.call('INCR', P .. 'seq')
  redis.call('ZADD', s.l, s.number, key)
end

local function spliced(meta, at, bytes)
  return string.sub(meta, 1, at - 1) .. bytes .. string.sub(meta, at + #bytes)
end

local function write_fields(s, key, fields)
  local packed = pack_fields(fields)
  if packed == '' then redis.call('HDEL', s.x, key) else redis.call('HSET', s.x, key, packed) end
end

-- Writes a row's meta and fields that were changed in place.
local function write_life(s, key, meta, fields)
  write_fields(s, key, fields)
  local revision = struct.unpack('<H', meta, AT_REVISION)
  redis.call('HSET', s.m, key, spliced(meta, AT_REVISION, struct.pack('<H', (revision + 1) % 65536)))
  log_change(s, key)
end

local function read_life(s, key)
  local meta = redis.call('HGET', s.m, key)
  if not meta or not intact(meta) then return nil end
  return meta, unpack_fields(redis.call('HGET', s.x, key) or '')
end

local function point(s, key, field, from, to)
  local meta, fields = read_life(s, key)
  -- It may have been joined to another meanwhile, while what it pointed to was gone and not yet swept.
  if not meta or fields[field] ~= from then return end
  fields[field] = to
  write_life(s, key, meta, fields)
end

local OUT, IN, MERGED, UNDER = 1, 2, 'merged', 'under'
local function links_of(key)
  return 'k' .. struct.pack('>I4', #key) .. key
end

local function link_entry(key, direction, relation, other)
  return links_of(key) .. string.char(direction) .. relation .. '\0' .. other
end

-- The entries of o: that begin with some bytes, so many at the most.
local function beginning_with(s, bytes, most)
  return redis.call('ZRANGEBYLEX', s.o, '[' .. bytes, '(' .. bytes .. '\255\255\255\255\255\255\255\255\255', 'LIMIT', 0, most)
end

local function hypothesis_id()
  local id = 0
  for name in string.gmatch(redis.call('HGET', P .. 'fmt', 'types') or '', '[^%z]+') do
    id = id + 1
    if name == 'hypothesis' then return id end
  end
end

-- A row that ends where another begins ends there for good, when that one goes and has begun; where it is withdrawn
-- before, the row has its own end again, or that of what follows.
local function end_before(s, key, next_key, gone_start, has_held)
  local meta, fields = read_life(s, key)
  if not meta then return end
  local until_, flags = fields[FIELD_UNTIL], struct.unpack('<H', meta, AT_FLAGS)
  if not until_ or double(meta, AT_VALID_UNTIL) ~= gone_start then return end
  if has_held then
    fields[FIELD_UNTIL] = nil
    if has(flags, END_AHEAD) then meta = spliced(meta, AT_FLAGS, struct.pack('<H', flags - END_AHEAD)) end
    return write_life(s, key, meta, fields)
  end
  local own, own_flags, reason, retired = struct.unpack('<dBBd', until_)
  local next_meta = next_key and redis.call('HGET', s.m, next_key)
  local next_start = next_meta and intact(next_meta) and double(next_meta, AT_VALID_FROM)
  if has(flags, END_AHEAD) then flags = flags - END_AHEAD end
  if next_start and next_start < own then
    own, own_flags, reason, retired = next_start, has_begun(next_meta) and 0 or 1, string.byte(meta, AT_REASON),
      double(meta, AT_RETIRED_AT)
  else
    fields[FIELD_UNTIL] = nil
  end
  local status = string.byte(meta, AT_STATUS)
  if status ~= ARCHIVED then status = reason > 0 and SUPERSEDED or ACTIVE end
  add_to_trail(fields, meta, status, reason, double(meta, AT_VALID_FROM), own, lapsed(meta))
  meta = spliced(meta, AT_VALID_UNTIL, struct.pack('<d', own))
  meta = spliced(meta, AT_RETIRED_AT, struct.pack('<d', retired))
  meta = spliced(meta, AT_FLAGS, struct.pack('<H', flags + own_flags * END_AHEAD))
  meta = spliced(meta, AT_STATUS, string.char(status, reason))
  if status == ACTIVE then
    local type_id = struct.unpack('<H', meta, AT_MEMORY_TYPE)
    if not is_hidden(type_id > 0 and type_id == hypothesis_id(), struct.unpack('<H', meta, AT_FLAGS), own, pack_fields(fields)) then
      redis.call('ZREM', s.h, key)
    end
  end
  write_life(s, key, meta, fields)
end

-- A dated row over which a permanent one lay that goes: the next one in the line lies over it, if it was said later.
local function lift(s, key, over)
  local meta, fields = read_life(s, key)
  if not meta or not fields[FIELD_UNDER] or string.sub(fields[FIELD_UNDER], 10) ~= over then return end
  fields[FIELD_UNDER] = nil
  local after = unpack_fields(redis.call('HGET', s.x, over) or '')[FIELD_SUPERSEDED_BY]
  local after_meta, after_fields
  if after then after_meta, after_fields = read_life(s, after) end
  if after_meta and fields[FIELD_PLACE] and after_fields[FIELD_PLACE] and string.sub(after_fields[FIELD_PLACE], 9) == 'b'
    and struct.unpack('<d', after_fields[FIELD_PLACE]) > struct.unpack('<d', fields[FIELD_PLACE]) then
    local start = double(after_meta, AT_VALID_FROM)
    fields[FIELD_UNDER] = struct.pack('<dB', start, has_begun(after_meta) and 0 or 1) .. after
    redis.call('ZADD', s.o, 0, link_entry(key, OUT, UNDER, after), 0, link_entry(after, IN, UNDER, key))
  end
  write_life(s, key, meta, fields)
end

local AT_ONCE = 1000
-- Takes a row out of the links of all rows it is linked to.
local function leave_links(s, key, meta)
  local start = links_of(key)
  while true do
    local found = beginning_with(s, start, AT_ONCE)
    if #found == 0 then return end
    local doomed = {}
    for i, entry in ipairs(found) do
      local direction = string.byte(entry, #start + 1)
      local stop = string.find(entry, '\0', #start + 2, true)
      local relation, other = string.sub(entry, #start + 2, stop - 1), string.sub(entry, stop + 1)
      doomed[2 * i - 1], doomed[2 * i] = entry, link_entry(other, OUT + IN - direction, relation, key)
      -- One that was merged into it, or over which it lies, points at it, and no line says so.
      if direction == IN and relation == MERGED then
        if meta then end_before(s, other, nil, double(meta, AT_VALID_FROM), has_begun(meta)) end
        point(s, other, FIELD_SUPERSEDED_BY, key, nil)
      elseif direction == IN and relation == UNDER then
        lift(s, other, key)
      end
    end
    redis.call('ZREM', s.o, unpack(doomed))
  end
end

-- Notes for good what has begun in a line by now.
local MOST_PLANS = 64
local function stamp(s, line)
  local found = redis.call('ZREVRANGEBYLEX', s.o, '(' .. line .. '\255\255\255\255\255\255\255\255\255', '[' .. line, 'LIMIT', 0, 1)
  local looked = 0
  while found[1] and looked < MOST_PLANS do
    local key = string.sub(found[1], #line + 17)
    local meta, fields = read_life(s, key)
    if not meta or not has(struct.unpack('<H', meta, AT_FLAGS), AHEAD) then return end
    if has_begun(meta) then
      write_life(s, key, spliced(meta, AT_FLAGS, struct.pack('<H', struct.unpack('<H', meta, AT_FLAGS) - AHEAD)), fields)
      local before = fields[FIELD_SUPERSEDES]
      local before_meta, before_fields
      if before then before_meta, before_fields = read_life(s, before) end
      if before_meta and has_ended(before_meta) and has(struct.unpack('<H', before_meta, AT_FLAGS), END_AHEAD) then
        local flags = struct.unpack('<H', before_meta, AT_FLAGS) - END_AHEAD
        write_life(s, before, spliced(before_meta, AT_FLAGS, struct.pack('<H', flags)), before_fields)
      end
    end
    looked = looked + 1
    found = redis.call('ZREVRANGEBYLEX', s.o, '(' .. found[1], '[' .. line, 'LIMIT', 0, 1)
  end
end

-- Takes a row out of its line and joins its neighbours.
local function leave_line(s, key, meta, fields)
  local before, after = fields[FIELD_SUPERSEDES], fields[FIELD_SUPERSEDED_BY]
  -- What goes with it needs no neighbours.
  if s.doomed and before and s.doomed[before] then before = nil end
  if s.doomed and after and s.doomed[after] then after = nil end
  local entry = entry_of(fields, key, double(meta, AT_VALID_FROM))
  if entry then
    redis.call('ZREM', s.o, entry)
    local index = string.sub(entry, 1, 1)
    local line = string.sub(entry, 1, #entry - #key - 16)
    -- Once for all rows of a line that go together.
    if s.stamped ~= line then
      s.stamped = line
      if index == 'r' then
        stamp(s, line)
        line = string.sub(line, 1, #line - 4 - #fields[FIELD_RUN_ID])
      end
      stamp(s, 'b' .. string.sub(line, 2))
    end
  end
  if after then
    -- One that was merged, or corrected before it began, points at what is not its neighbour.
    local _, after_fields = read_life(s, after)
    if not after_fields or after_fields[FIELD_SUPERSEDES] ~= key then
      if after_fields and after_fields[FIELD_TOOK] == key then point(s, after, FIELD_TOOK, key, nil) end
      after = nil
    end
  end
  if before then
    end_before(s, before, after, double(meta, AT_VALID_FROM), has_begun(meta))
    point(s, before, FIELD_SUPERSEDED_BY, key, after)
  end
  if after then point(s, after, FIELD_SUPERSEDES, key, before) end
  if fields[FIELD_TOOK] then point(s, fields[FIELD_TOOK], FIELD_SUPERSEDED_BY, key, nil) end
end

local function run_entry(s, key)
  return s.ns .. '\0' .. key
end

-- Takes a row out of what refers to it; cheap where a namespace has neither lines nor links.
local function leave_all(s, key)
  local packed, meta = s.has_x and redis.call('HGET', s.x, key), redis.call('HGET', s.m, key)
  if meta and not intact(meta) then meta = nil end
  if s.has_o then leave_links(s, key, meta) end
  if meta and packed then
    local fields = unpack_fields(packed)
    leave_line(s, key, meta, fields)
    if fields[FIELD_RUN_ID] then redis.call('ZREM', P .. 'r:' .. fields[FIELD_RUN_ID], run_entry(s, key)) end
  end
end

-- Takes a row out of every structure; it is logged, unless `is_silent`: then the caller raises the namespace's floor.
-- The caller calls after_removals once per namespace.
local function remove(s, key, is_silent)
  -- First, since it fails where the counter is none.
  local number = redis.call('INCR', P .. 'seq')
  leave_all(s, key)
  s.number = math.max(number, s.number or 0)
  redis.call('HDEL', s.v, key)
  redis.call('HDEL', s.m, key)
  redis.call('HDEL', s.e, key)
  redis.call('HDEL', s.x, key)
  redis.call('ZREM', s.c, key)
  redis.call('ZREM', s.z, key)
  redis.call('ZREM', s.l, key)
  redis.call('ZREM', s.h, key)
  redis.call('ZREM', s.t, key)
  if is_silent then
    redis.call('ZREM', s.d, key)
    redis.call('HSET', P .. 'flr', s.ns, count(s.number))
  else
    redis.call('ZADD', s.d, number, key)
  end
end

local function after_removals(s)
  note_expiry(s)
  if not s.number then return end
  note_change(s.ns, s.number)
  prune_log(s, s.d)
  prune_log(s, s.l)
  if redis.call('ZCARD', s.c) == 0 and redis.call('ZCARD', s.z) == 0 then
    redis.call('ZADD', P .. 'dead', s.number, s.ns)
    prune_dead()
  end
end
