-- Purpose: read the rows below a prefix that may lie over others of their slots: dated ones, and those of runs; step by step.
-- KEYS/ARGV[1..2]: see common.lua; read only
-- ARGV[3]  encoded prefix; ARGV[4] namespace to start at, encoded; ARGV[5] entry of it to go on behind, or ''
-- ARGV[6]  rows at the most; ARGV[7] namespaces to look at
-- Returns  {namespace to go on at, or '' at the end, entry, memory types, time, {namespace, {key, meta, rest, {word, ...}}, ...}, ...};
--          a word lies over that row, or would where those before it have expired: {key, meta, rest, '1' where it has}
-- Reads o:, m: and x: of the namespaces it finds, all under the prefix in KEYS[1].

local prefix, from, after = ARGV[3], ARGV[4], ARGV[5]
local left, look = tonumber(ARGV[6]), tonumber(ARGV[7])
local stop = prefix == '' and '+' or '(' .. prefix .. '\255'
local names = redis.call('ZRANGEBYLEX', P .. 'nsl', from == '' and '-' or '[' .. from, stop, 'LIMIT', 0, look)
local reply = {'', '', redis.call('HGET', P .. 'fmt', 'types'), string.format('%.0f', now)}

-- Where the key of a row begins in its entry.
local function key_at(entry)
  local at = 11
  if string.byte(entry, 2) == 0 then at = string.find(entry, '\0', string.find(entry, '\0', 3, true) + 1, true) + 1 end
  if string.sub(entry, 1, 1) == 'r' then at = at + 4 + struct.unpack('>I4', entry, at) end
  return at + 16
end

local MOST_WORDS = 64
local function words_over(s, packed)
  local words, under = {}, field(packed, FIELD_UNDER)
  local key = under and string.sub(under, 10)
  while key and #words < MOST_WORDS do
    local meta, rest = redis.call('HGET', s.m, key), redis.call('HGET', s.x, key) or ''
    if not meta or not intact(meta) then break end
    -- What was closed before lies over it until it is swept: a near-cache does not hold such rows.
    local has_expired = gone(meta) and redis.call('ZSCORE', s.c, key)
    words[#words + 1] = {key, meta, rest, has_expired and '1' or '0'}
    key = has_expired and field(rest, FIELD_SUPERSEDED_BY)
  end
  return words
end

for _, ns in ipairs(names) do
  local s, group = space(ns), {ns}
  for _, index in ipairs({'d', 'r'}) do
    if after == '' or string.sub(after, 1, 1) <= index then
      local start = string.sub(after, 1, 1) == index and '(' .. after or '[' .. index
      local found = redis.call('ZRANGEBYLEX', s.o, start, '(' .. index .. '\255', 'LIMIT', 0, left)
      for _, entry in ipairs(found) do
        local key = string.sub(entry, key_at(entry))
        local meta = redis.call('HGET', s.m, key)
        -- One without a slot lies over nothing.
        if meta and intact(meta) and not gone(meta) and string.byte(entry, 2) == 0 then
          local rest = redis.call('HGET', s.x, key) or ''
          group[#group + 1] = {key, meta, rest, words_over(s, rest)}
        end
      end
      left = left - #found
      if left <= 0 then
        reply[1], reply[2] = ns, found[#found]
        if #group > 1 then reply[#reply + 1] = group end
        return reply
      end
    end
  end
  after = ''
  if #group > 1 then reply[#reply + 1] = group end
end
-- Nothing sorts between a namespace and itself followed by a zero byte.
if #names == look then reply[1] = names[#names] .. '\0' end
return reply
