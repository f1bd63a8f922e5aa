-- Purpose: tell of which subjects anything stands in the lines of a namespace, or beside them.
-- KEYS/ARGV[1..2]: see common.lua; read only
-- ARGV[3]  the namespace, encoded; ARGV[4..] subjects
-- Returns  1 or 0 for each

local s, reply = space(ARGV[3]), {}
for at = 4, #ARGV do
  local found = 0
  for index in string.gmatch('brdhw', '.') do
    local start = index .. '\0' .. ARGV[at] .. '\0'
    if #redis.call('ZRANGEBYLEX', s.o, '[' .. start, '(' .. start .. '\255\255\255\255\255\255\255\255\255', 'LIMIT', 0, 1) > 0 then
      found = 1
    end
  end
  reply[#reply + 1] = found
end
return reply
