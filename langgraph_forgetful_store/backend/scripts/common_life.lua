-- Purpose: what scripts share that end, renew or change the life of a row: its fields, its chain, its slot and its
--          links. Stands below common_write.lua.
-- KEYS/ARGV[1..2], lane: see common_write.lua
--
-- s:<ns> holds 's' subject NUL attribute -> key of the slot's latest row, and 'a' name -> the subject it stands for.
-- k:<ns> holds 'k' key -> the links of a row, packed by pack_links.

local function has(flags, flag)
  return flags % (flag + flag) >= flag
end

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

-- What the store has thought of a row, and since when: status and end of validity; the latest entries are kept.
local TRAIL_BYTES, KEEP_TRAIL = 17, 256
local function step(status, reason)
  return status == ARCHIVED and reason > 0 and CLOSING or status
end

local function add_to_trail(fields, old, status, reason, valid_until, is_lapsed)
  local trail, was_lapsed = fields[FIELD_TRAIL] or '', lapsed(old)
  local old_status, old_reason = string.byte(old, AT_STATUS), string.byte(old, AT_REASON)
  local old_until = double(old, AT_VALID_UNTIL)
  local before, after = step(old_status, old_reason), step(status, reason)
  if before == after and old_until == valid_until and (is_lapsed or not was_lapsed) then return end
  if trail == '' then trail = struct.pack('<dBd', double(old, AT_RECORDED_AT), before, old_until) end
  -- The expiry that has archived it may be written over.
  if was_lapsed and old_status ~= ARCHIVED then
    local archived = closes(old_status, old_reason) and CLOSING or ARCHIVED
    trail = trail .. struct.pack('<dBd', double(old, AT_EXPIRES_AT), archived, old_until)
  end
  trail = trail .. struct.pack('<dBd', now, after, valid_until)
  fields[FIELD_TRAIL] = string.sub(trail, -KEEP_TRAIL * TRAIL_BYTES)
end

-- Whether a listing has to look at the row before it may show it.
local function is_hidden(type_is_hypothesis, flags, valid_from, valid_until, rest)
  return type_is_hypothesis or has(flags, RUN) or has(flags, ARCHIVES) or valid_from > now or valid_until < math.huge
    or string.find(rest, '"_only_in_context_', 1, true) ~= nil
end

local function canonical(s, subject)
  return redis.call('HGET', s.s, 'a' .. subject) or subject
end

local function slot_of(s, fields)
  local subject, attribute = fields[FIELD_SUBJECT], fields[FIELD_ATTRIBUTE]
  if subject and attribute then return 's' .. canonical(s, subject) .. '\0' .. attribute end
end

-- Logs a row that has changed without being written.
local function log_change(s, key)
  s.number = redis.call('INCR', P .. 'seq')
  redis.call('ZADD', s.l, s.number, key)
end

local function point(s, key, field, from, to)
  local packed = redis.call('HGET', s.x, key)
  if not packed then return end
  local fields = unpack_fields(packed)
  -- It may have been joined to another meanwhile, while what it pointed to was gone and not yet swept.
  if fields[field] ~= from then return end
  fields[field] = to
  packed = pack_fields(fields)
  if packed == '' then redis.call('HDEL', s.x, key) else redis.call('HSET', s.x, key, packed) end
  local meta = redis.call('HGET', s.m, key)
  if meta and intact(meta) then
    local revision = struct.unpack('<H', meta, AT_REVISION)
    meta = string.sub(meta, 1, AT_REVISION - 1) .. struct.pack('<H', (revision + 1) % 65536)
    redis.call('HSET', s.m, key, meta)
  end
  log_change(s, key)
end

-- The relation of a row to the one it was merged into: no other link is named so.
local OUT, IN, MERGED = 1, 2, 'merged'
-- Links as {direction, name of the relation, key of the other row} each.
local function unpack_links(packed)
  local links, at = {}, 1
  while at <= #packed do
    local direction, name, length, relation
    direction, name = struct.unpack('<BB', packed, at)
    relation = string.sub(packed, at + 2, at + 1 + name)
    at = at + 2 + name
    length = struct.unpack('<I4', packed, at)
    links[#links + 1] = {direction, relation, string.sub(packed, at + 4, at + 3 + length)}
    at = at + 4 + length
  end
  return links
end

local function pack_links(links)
  local parts = {}
  for i, link in ipairs(links) do
    parts[i] = struct.pack('<BB', link[1], #link[2]) .. link[2] .. struct.pack('<I4', #link[3]) .. link[3]
  end
  return table.concat(parts)
end

local function set_links(s, key, links)
  if #links > 0 then
    redis.call('HSET', s.k, 'k' .. key, pack_links(links))
  else
    redis.call('HDEL', s.k, 'k' .. key)
  end
end

-- Takes away the links of one name between two rows.
local function drop_links(s, key, other, relation)
  for one, far in pairs({[key] = other, [other] = key}) do
    local packed, kept = redis.call('HGET', s.k, 'k' .. one), {}
    for _, link in ipairs(unpack_links(packed or '')) do
      if link[2] ~= relation or link[3] ~= far then kept[#kept + 1] = link end
    end
    if packed then set_links(s, one, kept) end
  end
end

-- Joins the neighbours of a row that leaves its chain.
local function leave_chain(s, key, fields)
  local before, after = fields[FIELD_SUPERSEDES], fields[FIELD_SUPERSEDED_BY]
  if after and unpack_fields(redis.call('HGET', s.x, after) or '')[FIELD_SUPERSEDES] ~= key then
    -- It was merged into that one, and no other of its chain was.
    if s.has_k then drop_links(s, key, after, MERGED) end
    after = nil
  end
  if before then point(s, before, FIELD_SUPERSEDED_BY, key, after) end
  if after then point(s, after, FIELD_SUPERSEDES, key, before) end
end

local function leave_slot(s, key, fields)
  local slot, before = slot_of(s, fields), fields[FIELD_SUPERSEDES]
  if not slot or redis.call('HGET', s.s, slot) ~= key then return end
  -- Where it was to begin only later, what came before it holds still, and no other may hold beside that.
  local meta = before and redis.call('HGET', s.m, before)
  if meta and intact(meta) and not gone(meta) and double(meta, AT_VALID_UNTIL) > now
    and slot_of(s, unpack_fields(redis.call('HGET', s.x, before) or '')) == slot then
    redis.call('HSET', s.s, slot, before)
  else
    redis.call('HDEL', s.s, slot)
  end
end

-- Gives a row back the slot that it names, or takes the name from it where another row holds the slot.
local function reclaim_slot(s, key, fields)
  local slot = slot_of(s, fields)
  if not slot or redis.call('HSETNX', s.s, slot, key) == 1 then return end
  local holder = redis.call('HGET', s.s, slot)
  local meta = holder ~= key and redis.call('HGET', s.m, holder)
  if meta and not (intact(meta) and gone(meta)) then
    fields[FIELD_SUBJECT], fields[FIELD_ATTRIBUTE] = nil, nil
  else
    redis.call('HSET', s.s, slot, key)
  end
end

-- Takes a row out of the links of all rows it is linked to.
local function leave_links(s, key)
  local packed = redis.call('HGET', s.k, 'k' .. key)
  if not packed then return end
  redis.call('HDEL', s.k, 'k' .. key)
  for _, link in ipairs(unpack_links(packed)) do
    local other = link[3]
    local theirs, kept = redis.call('HGET', s.k, 'k' .. other), {}
    for _, one in ipairs(unpack_links(theirs or '')) do
      if one[3] ~= key then kept[#kept + 1] = one end
    end
    if theirs then set_links(s, other, kept) end
    -- One that was merged into it points at it, and no chain says so.
    if link[1] == IN and link[2] == MERGED then point(s, other, FIELD_SUPERSEDED_BY, key, nil) end
  end
end

-- Takes a row out of what refers to it; cheap where a namespace has neither slots nor chains nor links.
local function leave_all(s, key)
  local packed = s.has_x and redis.call('HGET', s.x, key)
  if packed then
    local fields = unpack_fields(packed)
    leave_chain(s, key, fields)
    leave_slot(s, key, fields)
  end
  if s.has_k then leave_links(s, key) end
end

-- Takes a row out of every structure and logs it. The caller calls after_removals once per namespace.
local function remove(s, key)
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
  redis.call('ZADD', s.d, number, key)
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
