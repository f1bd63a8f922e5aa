-- Purpose: look for what still refers to rows that were erased, apart from the code that erased them, step by step.
-- KEYS/ARGV[1..2]: see common.lua; read only
-- ARGV[3]  the namespace, encoded; ARGV[4] structure to look through, '' at first; ARGV[5] cursor there
-- ARGV[6]  N; then N keys, and the same as JSON
-- Returns  {next structure or '' at the end, next cursor, how many entries were looked at, reference, ...}; a reference
--          reads <structure> <key of the row, or field>

local s, structure, cursor, n = space(ARGV[3]), ARGV[4], ARGV[5], tonumber(ARGV[6])
local keys, quoted = {}, {}
for i = 1, n do
  keys[ARGV[6 + i]] = true
  quoted[i] = ARGV[6 + n + i]
end
local reply = {'', '0', 0}

local function refer(name)
  reply[#reply + 1] = name
end

if structure == '' then
  for key in pairs(keys) do
    for _, name in ipairs({'c', 'z', 'l', 'd', 'h', 't'}) do
      if redis.call('ZSCORE', s[name], key) then refer(name .. ' ' .. key) end
    end
    for _, name in ipairs({'m', 'x', 'e', 'v'}) do
      if redis.call('HEXISTS', s[name], key) == 1 then refer(name .. ' ' .. key) end
    end
  end
  reply[1], reply[3] = 'x', 9 * n
  return reply
end

local function in_fields(packed)
  local at = 1
  while at + 4 <= #packed do
    local id, length = struct.unpack('<BI4', packed, at)
    local part = string.sub(packed, at + 5, at + 4 + length)
    if (id == FIELD_SUPERSEDES or id == FIELD_SUPERSEDED_BY or id == FIELD_TOOK) and keys[part] then return true end
    if id == FIELD_SOURCE_REFS then
      for _, text in ipairs(quoted) do
        local found = string.find(part, text, 1, true)
        while found do
          -- Of a list of texts, one begins behind its bracket or a comma.
          if found == 2 or string.sub(part, found - 2, found - 1) == ', ' then return true end
          found = string.find(part, text, found + 1, true)
        end
      end
    end
    at = at + 5 + length
  end
  return false
end

-- Whether an entry of o: names a row: see common_life.lua.
local function in_entry(entry)
  local index = string.sub(entry, 1, 1)
  if index == 'g' then return false end
  if index == 'k' then
    local key_end = 5 + struct.unpack('>I4', entry, 2)
    local stop = string.find(entry, '\0', key_end + 2, true)
    return keys[string.sub(entry, 6, key_end)] or keys[string.sub(entry, stop + 1)]
  end
  local at = 11
  if string.byte(entry, 2) == 0 then at = string.find(entry, '\0', string.find(entry, '\0', 3, true) + 1, true) + 1 end
  if index == 'r' then at = at + 4 + struct.unpack('>I4', entry, at) end
  return keys[string.sub(entry, at + 16)]
end

if structure == 'o' then
  local found = redis.call('ZSCAN', s.o, cursor, 'COUNT', 500)
  for i = 1, #found[2], 2 do
    reply[3] = reply[3] + 1
    if in_entry(found[2][i]) then refer('o ' .. found[2][i]) end
  end
  reply[1], reply[2] = found[1] ~= '0' and 'o' or '', found[1]
  return reply
end

local found = redis.call('HSCAN', s.x, cursor, 'COUNT', 500)
for i = 1, #found[2], 2 do
  local field, value = found[2][i], found[2][i + 1]
  reply[3] = reply[3] + 1
  if in_fields(value) then refer('x ' .. field) end
end
reply[1], reply[2] = structure, found[1]
if found[1] == '0' then reply[1] = 'o' end
return reply
