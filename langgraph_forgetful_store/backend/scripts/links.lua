-- Purpose: read the links of rows, as they lie in o: (see common_life.lua).
-- KEYS/ARGV[1..2]: see common.lua; read only
-- ARGV[3]  the namespace, encoded; ARGV[4] links of each row at the most
-- then two each: key, and the entry to go on behind, or ''
-- Returns  {{entry, ...}, ...}, one for each row

local s, most, reply = space(ARGV[3]), ARGV[4], {}
for at = 5, #ARGV, 2 do
  local key, after = ARGV[at], ARGV[at + 1]
  local start = 'k' .. struct.pack('>I4', #key) .. key
  reply[#reply + 1] = redis.call('ZRANGEBYLEX', s.o, after == '' and '[' .. start or '(' .. after,
    '(' .. start .. '\255\255\255\255\255\255\255\255\255', 'LIMIT', 0, most)
end
return reply
