-- Purpose: read what the stored data say of themselves.
-- KEYS/ARGV[1..2]: see common.lua; read only
-- Returns  {version, buckets, dims, embedder, tokenizer of the words}, each nil where nothing is stored yet

return redis.call('HMGET', P .. 'fmt', 'version', 'buckets', 'dims', 'embedder', 'tokenizer')
