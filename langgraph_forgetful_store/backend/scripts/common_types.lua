-- Purpose: what scripts share that give memory types their ids. Stands below common_write.lua.
-- KEYS/ARGV[1..2], lane: see common_write.lua

local MOST_TYPES = 1024

-- The id of a memory type; a new one is given the next, unless it is only asked for.
local type_ids
local function type_id_of(name, only_ask)
  if name == 'generic' then return 0 end
  if not type_ids then
    type_ids = {count = 0, names = redis.call('HGET', P .. 'fmt', 'types') or ''}
    for known in string.gmatch(type_ids.names, '[^%z]+') do
      type_ids.count = type_ids.count + 1
      type_ids[known] = type_ids.count
    end
  end
  if not type_ids[name] and not only_ask then
    type_ids.count = type_ids.count + 1
    type_ids[name] = type_ids.count
    type_ids.names = type_ids.names .. name .. '\0'
    redis.call('HSET', P .. 'fmt', 'types', type_ids.names)
  end
  return type_ids[name]
end

-- The error for names of which too many would be new: every client keeps them all, and their ids have 16 bits.
local function too_many_types(named)
  named[''], named['generic'] = nil, nil
  if not next(named) then return nil end
  local types = 0
  for known in string.gmatch(redis.call('HGET', P .. 'fmt', 'types') or '', '[^%z]+') do
    types, named[known] = types + 1, nil
  end
  for _ in pairs(named) do types = types + 1 end
  if types > MOST_TYPES then return redis.error_reply('ERR too many memory types: at most ' .. MOST_TYPES) end
end

-- What the stored data say of themselves, where this call's ARGV[3..6] differ from it.
local format = redis.call('HMGET', P .. 'fmt', 'version', 'buckets', 'dims', 'embedder')
local function other_format()
  if (format[1] and (format[1] ~= ARGV[3] or format[2] ~= ARGV[4]))
    or (ARGV[5] ~= '' and format[3] and (format[3] ~= ARGV[5] or format[4] ~= ARGV[6])) then
    return {'FORMAT', format[1], format[2] or '', format[3] or '', format[4] or ''}
  end
end

local function write_format()
  if not format[1] then
    -- The epoch tells data that were flushed and written anew from those that a client has cached.
    redis.call('HSET', P .. 'fmt', 'version', ARGV[3], 'buckets', ARGV[4],
      'epoch', ARGV[#ARGV - 1] .. '/' .. ARGV[#ARGV] .. '/' .. count(now))
  end
  if ARGV[5] ~= '' and not format[3] then
    redis.call('HSET', P .. 'fmt', 'dims', ARGV[5], 'embedder', ARGV[6])
  end
end
