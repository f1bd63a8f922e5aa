-- Purpose: note by their digests what is erased of a namespace; the latest are kept.
-- KEYS/ARGV[1..2]: see common.lua; may be repeated, so it takes no lane
-- ARGV[3]  the namespace, encoded; ARGV[4..] digests
-- Returns  1
-- Works at maxmemory: its first write is one that frees.

local KEEP_DIGESTS = 10000
local key = space(ARGV[3]).g
open_gate()
for i = 4, #ARGV do redis.call('ZADD', key, now, ARGV[i]) end
local over = redis.call('ZCARD', key) - KEEP_DIGESTS
if over > 0 then redis.call('ZREMRANGEBYRANK', key, 0, over - 1) end
return 1
