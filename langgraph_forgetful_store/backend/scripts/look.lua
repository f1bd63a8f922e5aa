-- Purpose: read what a change is planned on: rows, with the parts of their lines that it may touch, and aliases.
-- KEYS/ARGV[1..2]: see common.lua; read only
-- ARGV[3]  the namespace, encoded; ARGV[4] '1': with values
-- then four each: 'r' key '' '' for a row alone;
--          'k' key run start for a row with the indexes of its owner (see common_life.lua); 's' subject, NUL, attribute and
--          run start for those of a slot: the lines of permanent rows and of that run ('' for none; `k`: and of the row's
--          own), what stands beside them, each from the latest row that has begun for good, and one before, to the end;
--          and around start, as it lies in o:, or '' for nowhere;
--          'n' name '' '' for what goes by a subject's name: at most MOST_LINES lines;
--          'l' key other relation: whether they are linked so
-- Returns  {time, memory types, ...}; a row is {key, meta, value, rest, '1' where time has taken it out} or nil.
--          'r': {row or nil}; 'k' and 's': {row or nil, subject, what that stands for or '', {all names of that},
--          {part, ...}}; a part is {first entry, last entry, {entry, row or nil, ...}} of an index, the entries that bound it
--          included where they are there;
--          'n': {what it stands for or '', what `unalias` needs or '', {all names that stand for it}, {part, ...}};
--          'l': '1' or ''

local s, with_values = space(ARGV[3]), ARGV[4] == '1'
local MOST_LINES, MOST_NAMES, MOST_BACK = 512, 1000, 128
local LAST = string.rep('\255', 9)

local function fields_of(packed)
  local fields, at = {}, 1
  while at + 4 <= #packed do
    local id, length = struct.unpack('<BI4', packed, at)
    fields[id] = string.sub(packed, at + 5, at + 4 + length)
    at = at + 5 + length
  end
  return fields
end

local function read(key)
  local meta = redis.call('HGET', s.m, key)
  if not meta then return false end
  local rest = redis.call('HGET', s.x, key) or ''
  return {key, meta, with_values and redis.call('HGET', s.v, key), rest, intact(meta) and gone(meta) and '1' or '0'}
end

local function is_firm(row)
  return row and row[5] == '0' and intact(row[2]) and not has(struct.unpack('<H', row[2], AT_FLAGS), AHEAD)
end

-- A line from its end back to the latest row that has begun for good, and the one before that.
local function tail(parts, line, wanted)
  local entries, firm, upto = {}, 0, '(' .. line .. LAST
  local step = 4
  while firm < wanted and #entries < MOST_BACK do
    local found = redis.call('ZREVRANGEBYLEX', s.o, upto, '[' .. line, 'LIMIT', 0, step)
    for _, entry in ipairs(found) do
      local row = read(string.sub(entry, #line + 17))
      table.insert(entries, 1, row)
      table.insert(entries, 1, entry)
      if is_firm(row) then firm = firm + 1 end
      if firm == wanted then break end
    end
    if #found < step or firm == wanted then
      if #found < step and firm < wanted then upto = nil end
      break
    end
    upto, step = '(' .. found[#found], 16
  end
  parts[#parts + 1] = {upto and entries[1] or line, line .. LAST, entries}
end

-- The living rows of a line next to a start, or to a row of it, with what lies between.
local function around(parts, line, middle, own)
  local entries, living, wanted = {}, 0, 1
  local first, last = line, line .. LAST
  for _, entry in ipairs(redis.call('ZREVRANGEBYLEX', s.o, '(' .. middle, '[' .. line, 'LIMIT', 0, 16)) do
    local row = read(string.sub(entry, #line + 17))
    table.insert(entries, 1, row)
    table.insert(entries, 1, entry)
    first = entry
    if row and row[5] == '0' then living = living + 1 end
    if living == wanted then break end
  end
  if living < wanted and #entries < 32 then first = line end
  if own then
    entries[#entries + 1] = middle
    entries[#entries + 1] = read(own)
    last = middle
  end
  for _, entry in ipairs(redis.call('ZRANGEBYLEX', s.o, '(' .. middle, '(' .. line .. LAST, 'LIMIT', 0, 16)) do
    local row = read(string.sub(entry, #line + 17))
    entries[#entries + 1] = entry
    entries[#entries + 1] = row
    last = entry
    if row and row[5] == '0' then break end
  end
  parts[#parts + 1] = {first, last, entries}
end

local function names_of(subject)
  local start, names = 'g' .. subject .. '\0', {}
  for i, entry in ipairs(redis.call('ZRANGEBYLEX', s.o, '[' .. start, '(' .. start .. LAST, 'LIMIT', 0, MOST_NAMES)) do
    names[i] = string.sub(entry, #start + 1)
  end
  return names
end

local function run_part(run)
  return struct.pack('>I4', #run) .. run
end

-- Whether a row stands in a part with one before it, or as the first of its line.
local function has_before(part, line, key)
  local before = part[1] == line
  for i = 1, #part[3], 2 do
    local row = part[3][i + 1]
    if row and row[1] == key then return before end
    if row and row[5] == '0' then before = true end
  end
  return false
end

-- The indexes of owners: of one slot by all its names, or of one chain. `own` is a row of one of them.
local function indexes(owners, runs, start, own)
  local parts = {}
  for _, owner in ipairs(owners) do
    local lines = {'b' .. owner}
    for run in pairs(runs) do lines[#lines + 1] = 'r' .. owner .. run_part(run) end
    for _, line in ipairs(lines) do
      tail(parts, line, 2)
      if own and own.line == line and not has_before(parts[#parts], line, own.key) then
        around(parts, line, line .. own.place .. own.key, own.key)
      end
      if start ~= '' then around(parts, line, line .. start .. LAST) end
    end
    tail(parts, 'd' .. owner, 4)
  end
  return parts
end

local function slot(row, subject, attribute, runs, start, own)
  local stands_for = redis.call('HGET', s.s, 'a' .. subject) or ''
  local canonical = stands_for ~= '' and stands_for or subject
  local names = names_of(canonical)
  local owners = {'\0' .. canonical .. '\0' .. attribute .. '\0'}
  for _, name in ipairs(names) do owners[#owners + 1] = '\0' .. name .. '\0' .. attribute .. '\0' end
  return {row, subject, stands_for, names, indexes(owners, runs, start, own)}
end

local function by_key(key, run, start)
  local row = read(key)
  if not row or not intact(row[2]) then return {row, '', '', {}, {}} end
  local fields, runs = fields_of(row[4]), {}
  if run ~= '' then runs[run] = true end
  if fields[FIELD_RUN_ID] then runs[fields[FIELD_RUN_ID]] = true end
  local subject, attribute, own = fields[FIELD_SUBJECT], fields[FIELD_ATTRIBUTE] or '', nil
  if not (fields[FIELD_CHAIN] or subject) then return {row, '', '', {}, {}} end
  local owner = fields[FIELD_CHAIN] and '\1' .. fields[FIELD_CHAIN] or '\0' .. subject .. '\0' .. attribute .. '\0'
  local index = fields[FIELD_PLACE] and string.sub(fields[FIELD_PLACE], 9)
  if index == 'b' or index == 'r' then
    local number = struct.unpack('<d', fields[FIELD_PLACE])
    own = {key = key, place = sortable(double(row[2], AT_VALID_FROM)) .. sortable(number)}
    own.line = index .. owner .. (index == 'r' and run_part(fields[FIELD_RUN_ID]) or '')
  end
  if fields[FIELD_CHAIN] then return {row, '', '', {}, indexes({owner}, runs, start, own)} end
  return slot(row, subject, attribute, runs, start, own)
end

-- The lines of a name, one after the other, and what stands beside them.
local function by_name(name)
  local parts = {}
  for _, index in ipairs({'b', 'r', 'd'}) do
    local start = index .. '\0' .. name .. '\0'
    local from = '[' .. start
    while #parts < MOST_LINES do
      local entry = redis.call('ZRANGEBYLEX', s.o, from, '(' .. start .. LAST, 'LIMIT', 0, 1)[1]
      if not entry then break end
      local line = string.sub(entry, 1, string.find(entry, '\0', #start + 1, true))
      if index == 'r' then line = string.sub(entry, 1, #line + 4 + struct.unpack('>I4', entry, #line + 1)) end
      tail(parts, line, index == 'd' and 4 or 2)
      from = '(' .. line .. LAST
    end
  end
  return {redis.call('HGET', s.s, 'a' .. name) or '', redis.call('HGET', s.s, 'u' .. name) or '', names_of(name), parts}
end

local reply = {string.format('%.0f', now), redis.call('HGET', P .. 'fmt', 'types')}
for at = 5, #ARGV, 4 do
  local kind, name, more, start = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  if kind == 'r' then
    reply[#reply + 1] = {read(name)}
  elseif kind == 'k' then
    reply[#reply + 1] = by_key(name, more, start)
  elseif kind == 's' then
    local stop = string.find(name, '\0', 1, true)
    reply[#reply + 1] = slot(false, string.sub(name, 1, stop - 1), string.sub(name, stop + 1), more ~= '' and {[more] = true} or {}, start)
  elseif kind == 'n' then
    reply[#reply + 1] = by_name(name)
  else
    local entry = 'k' .. struct.pack('>I4', #name) .. name .. '\1' .. start .. '\0' .. more
    reply[#reply + 1] = redis.call('ZSCORE', s.o, entry) and '1' or ''
  end
end
return reply
