-- Purpose: read what a change of lives is planned on: rows with their chains, slots, aliases and links.
-- KEYS/ARGV[1..2]: see common.lua; read only
-- ARGV[3]  the namespace, encoded; ARGV[4] how far back a chain is told: from its latest row to the first one that is
--          valid from this time ('now': the time of the call) on or before it, and one more, not counting what is gone;
--          '' for the whole of it
-- ARGV[5]  '1': with values
-- then three each: 'k' key '' for the chain of a row ('b': from that row on backwards), 's' subject attribute for that of a slot, 'r' key '' for a row alone,
--          'l' key '' for its links, 'n' name '' for what goes by a subject's name
-- Returns  {time, memory types, ...}; for each 'k', 's' and 'r' {field of the slot of the latest row or '', key in it or
--          '', row, ...}, latest row first; a row is {key, meta, value, rest, '1' where time has taken it out}; for 'l' what
--          is stored, or nil; for 'n' {what the name stands for or '', what is kept of that or '', {names that stand for
--          it}, {field of a slot, key in it, ...}}

local s, with_values = space(ARGV[3]), ARGV[5] == '1'
local until_ = ARGV[4] == 'now' and now or tonumber(ARGV[4])
-- As many as unpack takes.
local MOST = 7000

local function field(packed, wanted)
  local at = 1
  while at + 4 <= #packed do
    local id, length = struct.unpack('<BI4', packed, at)
    if id == wanted then return string.sub(packed, at + 5, at + 4 + length) end
    at = at + 5 + length
  end
end

local function read(key)
  local meta = redis.call('HGET', s.m, key)
  if not meta then return nil end
  local rest = redis.call('HGET', s.x, key) or ''
  return {key, meta, with_values and redis.call('HGET', s.v, key), rest, intact(meta) and gone(meta) and '1' or '0'}
end

-- Rows from the latest of the chain that `key` is in, or, where it is told backwards, from itself.
local function chain(rows, key, backwards)
  local row, seen = read(key), {}
  if not row then return end
  local ends = {}
  -- What merges or foreign data left behind must not make a circle of it.
  while not backwards and not seen[row[1]] do
    seen[row[1]] = true
    local next_key = field(row[4], FIELD_SUPERSEDED_BY)
    local next_row = next_key and read(next_key)
    if not next_row then break end
    -- One that was merged is in no chain of the row it was merged into.
    if field(next_row[4], FIELD_SUPERSEDES) ~= row[1] then table.insert(ends, 1, row) end
    row = next_row
  end
  local told, more = {}, true
  local function tell(from)
    row, more = from, true
    while row and not told[row[1]] and #rows < MOST do
      told[row[1]] = true
      rows[#rows + 1] = row
      if not more and row[5] == '0' then break end
      if until_ and intact(row[2]) and double(row[2], AT_VALID_FROM) <= until_ and row[5] == '0' then more = false end
      local before = field(row[4], FIELD_SUPERSEDES)
      row = before and read(before)
    end
  end
  tell(row)
  for _, one in ipairs(ends) do tell(one) end
end

local function slot_of(subject, attribute)
  local slot = 's' .. (redis.call('HGET', s.s, 'a' .. subject) or subject) .. '\0' .. attribute
  return slot, redis.call('HGET', s.s, slot) or ''
end

local function name_of(name)
  local pairs_, names, slots = redis.call('HGETALL', s.s), {}, {}
  local start = 's' .. name .. '\0'
  for i = 1, #pairs_, 2 do
    local one = pairs_[i]
    if string.sub(one, 1, 1) == 'a' and pairs_[i + 1] == name then names[#names + 1] = string.sub(one, 2) end
    if string.sub(one, 1, #start) == start then
      slots[#slots + 1] = one
      slots[#slots + 1] = pairs_[i + 1]
    end
  end
  return {redis.call('HGET', s.s, 'a' .. name) or '', redis.call('HGET', s.s, 'u' .. name) or '', names, slots}
end

local reply = {string.format('%.0f', now), redis.call('HGET', P .. 'fmt', 'types')}
for at = 6, #ARGV, 3 do
  local kind, name, attribute = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local one
  if kind == 'l' then
    one = redis.call('HGET', s.k, 'k' .. name)
  elseif kind == 'n' then
    one = name_of(name)
  else
    local rows, slot, holder = {}, '', ''
    if kind == 's' then
      slot, holder = slot_of(name, attribute)
      if holder ~= '' then chain(rows, holder) end
    elseif kind == 'k' or kind == 'b' then
      chain(rows, name, kind == 'b')
    else
      rows[1] = read(name)
    end
    if kind ~= 's' and rows[1] then
      local subject = field(rows[1][4], FIELD_SUBJECT)
      if subject then slot, holder = slot_of(subject, field(rows[1][4], FIELD_ATTRIBUTE) or '') end
    end
    one = {slot, holder, unpack(rows)}
  end
  reply[#reply + 1] = one
end
return reply
