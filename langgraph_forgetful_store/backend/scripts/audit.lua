-- Purpose: read audit records below a prefix, latest first, a bounded number of records a call.
-- KEYS/ARGV[1..2]: see common.lua; read only
-- ARGV[3]  encoded prefix; ARGV[4] key, with 'k' in front, or '' for any; ARGV[5] what stands for the key where it was
--          erased; ARGV[6] time in ms from which on
-- ARGV[7]  id to go on before, or '+'; ARGV[8] records to look at; ARGV[9] records to return at the most
-- Returns  {id to go on before, or '' at the end, {time, namespace, key, actor, action, reason, details}, ...}

local prefix, key, erased, since = ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6])
local start = ARGV[7] == '+' and '+' or '(' .. ARGV[7]
local look, most = tonumber(ARGV[8]), tonumber(ARGV[9])
-- An id begins with a time that is never before its record's.
local ids = redis.call('ZREVRANGEBYLEX', P .. 'audit_t', start, '[' .. string.format('%015.0f', math.floor(since)),
  'LIMIT', 0, look)
local reply, last = {''}, nil
for _, id in ipairs(ids) do
  local one = unpack_record(redis.call('HGET', P .. 'audit', id))
  last = id
  local below = string.sub(one[2], 1, #prefix) == prefix
  local names = key == '' or key == 'k' .. one[3] or erased ~= '' and erased == one[3]
  if below and names and tonumber(one[1]) >= since then
    reply[#reply + 1] = one
    if #reply - 1 == most then break end
  end
end
if last and (#ids == look or #reply - 1 == most) then reply[1] = last end
return reply
