-- Purpose: read, or erase, audit records below a prefix, latest first, a bounded number of records a call.
-- KEYS/ARGV[1..2]: see common.lua; erasing may be repeated, so it takes no lane
-- ARGV[3]  encoded prefix; ARGV[4] key, with 'k' in front, or '' for any; ARGV[5] time in ms from which on
-- ARGV[6]  id to go on before, or '+'; ARGV[7] records to look at; ARGV[8] records to return at the most
-- ARGV[9]  '1': erase them instead, '2': those of this very namespace; records of erasures stay
-- ARGV[10] the key as JSON, where records of other rows that name it are to be erased too, or ''
-- Returns  {id to go on before, or '' at the end, how many were met, {time, namespace, key, actor, action, reason, details}, ...}

local prefix, key, since = ARGV[3], ARGV[4], tonumber(ARGV[5])
local start = ARGV[6] == '+' and '+' or '(' .. ARGV[6]
local look, most, erases = tonumber(ARGV[7]), tonumber(ARGV[8]), ARGV[9] ~= '0'
local entries = redis.call('XREVRANGE', P .. 'audit', start, '-', 'COUNT', look)
local reply, doomed, last = {'', 0}, {}, nil
for _, entry in ipairs(entries) do
  local one = {}
  for i = 1, #entry[2], 2 do one[entry[2][i]] = entry[2][i + 1] end
  last = entry[1]
  local below = ARGV[9] == '2' and one.n == prefix or ARGV[9] ~= '2' and string.sub(one.n, 1, #prefix) == prefix
  local names = key == '' or key == 'k' .. one.k or (ARGV[10] ~= '' and string.find(one.d, ARGV[10], 1, true))
  if below and names and tonumber(one.t) >= since then
    if erases then
      if one.a ~= 'forget' and one.a ~= 'forget_all' then doomed[#doomed + 1] = entry[1] end
    else
      reply[#reply + 1] = {one.t, one.n, one.k, one.w, one.a, one.r, one.d}
      if #reply - 2 == most then break end
    end
  end
end
if #doomed > 0 then
  redis.call('XDEL', P .. 'audit', unpack(doomed))
  if redis.call('XLEN', P .. 'audit') == 0 then redis.call('DEL', P .. 'audit') end
end
if last and (#entries == look or #reply - 2 == most) then reply[1] = last end
reply[2] = erases and #doomed or #reply - 2
return reply
