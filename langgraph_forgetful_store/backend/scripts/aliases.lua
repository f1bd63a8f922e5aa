-- Purpose: read which names stand for which subjects.
-- KEYS/ARGV[1..2]: see common.lua; read only
-- ARGV[3]  the namespace, encoded
-- Returns  {name, subject, ...}

local pairs_, found = redis.call('HGETALL', space(ARGV[3]).s), {}
for i = 1, #pairs_, 2 do
  if string.sub(pairs_[i], 1, 1) == 'a' then
    found[#found + 1] = string.sub(pairs_[i], 2)
    found[#found + 1] = pairs_[i + 1]
  end
end
return found
