-- Purpose: read, or erase, audit records below a prefix, latest first, a bounded number of records a call.
-- KEYS/ARGV[1..2]: see common.lua; erasing may be repeated, so it takes no lane
-- ARGV[3]  encoded prefix; ARGV[4] key, with 'k' in front, or '' for any; ARGV[5] time in ms from which on
-- ARGV[6]  id to go on before, or '+'; ARGV[7] records to look at; ARGV[8] records to return at the most
-- ARGV[9]  '1': erase them instead, '2': those of keys in this very namespace, and of others that name them; records of
--          erasures stay
-- ARGV[10] for '2': N; then N keys, and the same as JSON between its quotes
-- Returns  {id to go on before, or '' at the end, how many were met, {time, namespace, key, actor, action, reason, details}, ...}

local prefix, key, since = ARGV[3], ARGV[4], tonumber(ARGV[5])
local start = ARGV[6] == '+' and '+' or '(' .. ARGV[6]
local look, most, erases = tonumber(ARGV[7]), tonumber(ARGV[8]), ARGV[9] ~= '0'
local keys, quoted, odd = {}, {}, {}
for i = 1, tonumber(ARGV[10] or '0') do
  keys[ARGV[10 + i]] = true
  local text = ARGV[10 + tonumber(ARGV[10]) + i]
  -- What JSON escapes is not found between two quotes.
  if string.find(text, '\\', 1, true) then odd[#odd + 1] = '"' .. text .. '"' else quoted[text] = true end
end

local function names_one(one)
  if keys[one.k] then return true end
  for text in string.gmatch(one.d, '"([^"]*)') do
    if quoted[text] then return true end
  end
  for _, text in ipairs(odd) do
    if string.find(one.d, text, 1, true) then return true end
  end
  return false
end

local entries = redis.call('XREVRANGE', P .. 'audit', start, '-', 'COUNT', look)
local reply, doomed, last = {'', 0}, {}, nil
for _, entry in ipairs(entries) do
  local one = {}
  for i = 1, #entry[2], 2 do one[entry[2][i]] = entry[2][i + 1] end
  last = entry[1]
  local below = ARGV[9] == '2' and one.n == prefix or ARGV[9] ~= '2' and string.sub(one.n, 1, #prefix) == prefix
  local names = key == '' or key == 'k' .. one.k
  if ARGV[9] == '2' then names = below and names_one(one) end
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
