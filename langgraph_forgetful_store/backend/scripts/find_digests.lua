-- Purpose: tell which digests were left by erasures in a namespace.
-- KEYS/ARGV[1..2]: see common.lua; read only
-- ARGV[3]  the namespace, encoded; ARGV[4..] digests
-- Returns  how many of them are known

local found, key = 0, space(ARGV[3]).g
for i = 4, #ARGV do
  if redis.call('ZSCORE', key, ARGV[i]) then found = found + 1 end
end
return found
