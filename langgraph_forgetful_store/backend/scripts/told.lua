-- Purpose: read all rows of a row's slot or chain, of every layer, step by step.
-- KEYS/ARGV[1..2]: see common.lua; read only
-- ARGV[3]  the namespace, encoded; ARGV[4] the key; ARGV[5] range and ARGV[6] entry of it to go on behind: 0 and '' at first
-- ARGV[7]  rows at the most; ARGV[8] bytes of values at about the most; ARGV[9] '1': by all names of the slot's subject
-- Returns  {time, memory types, range or '' at the end, entry, {key, meta, value, rest, '1' where time has taken it out}, ...}

local s, key, most, bytes_left = space(ARGV[3]), ARGV[4], tonumber(ARGV[7]), tonumber(ARGV[8])
local LAST = string.rep('\255', 9)
local reply = {string.format('%.0f', now), redis.call('HGET', P .. 'fmt', 'types'), '', ''}

local function tell(name)
  local meta = redis.call('HGET', s.m, name)
  if not meta then return end
  local value = redis.call('HGET', s.v, name)
  bytes_left = bytes_left - (value and #value or 0)
  reply[#reply + 1] = {name, meta, value, redis.call('HGET', s.x, name) or '', intact(meta) and gone(meta) and '1' or '0'}
end

local packed = redis.call('HGET', s.x, key) or ''
if ARGV[5] == '0' and ARGV[6] == '' then tell(key) end
local chain, subject = field(packed, FIELD_CHAIN), field(packed, FIELD_SUBJECT)
local owners = {}
if chain then
  owners[1] = '\1' .. chain
elseif subject then
  local slots = '\0' .. (field(packed, FIELD_ATTRIBUTE) or '') .. '\0'
  local names = {subject}
  if ARGV[9] == '1' then
    names = {redis.call('HGET', s.s, 'a' .. subject) or subject}
    local start = 'g' .. names[1] .. '\0'
    for _, entry in ipairs(redis.call('ZRANGEBYLEX', s.o, '[' .. start, '(' .. start .. LAST)) do
      names[#names + 1] = string.sub(entry, #start + 1)
    end
  end
  for i, name in ipairs(names) do owners[i] = '\0' .. name .. slots end
end
local INDEXES = {'b', 'r', 'd', 'h', 'w'}
local range, after = tonumber(ARGV[5]), ARGV[6]
while range < #INDEXES * #owners do
  local index = INDEXES[range % #INDEXES + 1]
  local line = index .. owners[math.floor(range / #INDEXES) + 1]
  while true do
    local room = math.min(most, 100)
    local from = after == '' and '[' .. line or '(' .. after
    local found = redis.call('ZRANGEBYLEX', s.o, from, '(' .. line .. LAST, 'LIMIT', 0, room)
    for _, entry in ipairs(found) do
      local head = #line
      if index == 'r' then head = head + 4 + struct.unpack('>I4', entry, #line + 1) end
      after = entry
      tell(string.sub(entry, head + 17))
    end
    most = most - #found
    if most <= 0 or bytes_left <= 0 then
      reply[3], reply[4] = tostring(range), after
      return reply
    end
    if #found < room then break end
  end
  range, after = range + 1, ''
end
return reply
