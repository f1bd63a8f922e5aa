-- Purpose: read the rows of a run below a prefix, a bounded number a call.
-- KEYS/ARGV[1..2]: see common.lua; read only
-- ARGV[3]  the run's id, as JSON; ARGV[4] encoded prefix; ARGV[5] entry to go on behind, or ''; ARGV[6] rows at the most
-- ARGV[7]  change number after which rows are left out; '': the last one now
-- Returns  {entry to go on behind, or '' at the end, that number, how many of them have expired, entry, content number of its row, ...};
--          an entry is the namespace, NUL, and the key

local prefix, after = ARGV[4], ARGV[5]
local upto = ARGV[7] == '' and (redis.call('GET', P .. 'seq') or '0') or ARGV[7]
local start = after ~= '' and '(' .. after or prefix == '' and '-' or '[' .. prefix
local entries = redis.call('ZRANGEBYLEX', P .. 'r:' .. ARGV[3], start, prefix == '' and '+' or '(' .. prefix .. '\255',
  'LIMIT', 0, ARGV[6])
local reply = {#entries == tonumber(ARGV[6]) and entries[#entries] or '', upto, 0}
for _, entry in ipairs(entries) do
  local at = 1
  while string.byte(entry, at) ~= 0 do
    local _, last = string.find(entry, SEPARATOR, at, true)
    at = last + 1
  end
  local meta = redis.call('HGET', P .. 'm:' .. string.sub(entry, 1, at - 1), string.sub(entry, at + 1))
  if meta and intact(meta) and double(meta, AT_CONTENT) <= tonumber(upto) then
    if gone(meta) then reply[3] = reply[3] + 1 end
    reply[#reply + 1] = entry
    reply[#reply + 1] = string.format('%.0f', double(meta, AT_CONTENT))
  end
end
return reply
