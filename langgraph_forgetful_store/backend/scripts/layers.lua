-- Purpose: read the rows below a prefix that may lie over others of their slots: dated ones, and those of runs; step by step.
-- KEYS/ARGV[1..2]: see common.lua; read only
-- ARGV[3]  encoded prefix; ARGV[4] namespace to start at, encoded; ARGV[5] entry of it to go on behind, or ''
-- ARGV[6]  rows at the most; ARGV[7] namespaces to look at
-- Returns  {namespace to go on at, or '' at the end, entry, memory types, time, {namespace, {key, meta, rest}, ...}, ...}
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
          group[#group + 1] = {key, meta, redis.call('HGET', s.x, key)}
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
