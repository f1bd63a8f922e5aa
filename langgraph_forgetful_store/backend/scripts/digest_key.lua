-- Purpose: tell the key of the digests that erasures leave, and make it where there is none.
-- KEYS/ARGV[1..2]: see common.lua; may be repeated, so it takes no lane
-- ARGV[3]  a key made by chance, which becomes it if there is none; '': none is made
-- Returns  the key, or nothing
-- Works at maxmemory: its first write is one that frees.

local known = redis.call('HGET', P .. 'fmt', 'digests')
if known or ARGV[3] == '' then return known end
open_gate()
redis.call('HSET', P .. 'fmt', 'digests', ARGV[3])
return ARGV[3]
