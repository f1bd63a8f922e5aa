-- Purpose: after an erasure, drop aliases and links of namespaces that hold no rows, and tell what is left below a prefix.
-- KEYS/ARGV[1..2]: see common.lua; may be repeated, so it takes no lane
-- ARGV[3]  encoded prefix; ARGV[4] namespace to start at, encoded, or ''
-- ARGV[5]  change number up to which everything was to be erased: what is left of rows put after it is theirs
-- Returns  {next namespace or '' at the end, how many structures were looked at, what is left, ...}

local prefix = ARGV[3]
local start = ARGV[4] == '' and (prefix == '' and '-' or '[' .. prefix) or '[' .. ARGV[4]
local names = redis.call('ZRANGEBYLEX', P .. 'nsl', start, prefix == '' and '+' or '(' .. prefix .. '\255', 'LIMIT', 0, 100)
local reply = {'', 0}
open_gate()
for _, ns in ipairs(names) do
  local s = space(ns)
  local rows = redis.call('HLEN', s.m)
  if rows == 0 then redis.call('DEL', s.s, s.o) end
  local newer = redis.call('ZCOUNT', s.c, '(' .. ARGV[5], '+inf') + redis.call('ZCOUNT', s.z, '(' .. ARGV[5], '+inf')
  local is_theirs = rows > 0 and newer == rows
  for _, name in ipairs({'c', 'z', 'l', 'h', 't', 'm', 'x', 'e', 'v', 's', 'o'}) do
    reply[2] = reply[2] + 1
    local is_left = redis.call('EXISTS', s[name]) == 1 and not is_theirs
    -- No name tells when it was given.
    if is_theirs and name == 's' then is_left = #redis.call('HSCAN', s.s, 0, 'MATCH', 'a*', 'COUNT', 1000)[2] > 0 end
    if is_left then reply[#reply + 1] = name .. ' ' .. ns end
  end
end
-- Nothing sorts between a namespace and itself followed by a zero byte.
if #names == 100 then reply[1] = names[100] .. '\0' end
return reply
