-- Purpose: what scripts share that give memory types their ids. Stands below common_write.lua.
-- KEYS/ARGV[1..2], lane: see common_write.lua

local MOST_TYPES = 1024

-- The names of the memory types, each at its id.
local function stored_types()
  local names = {}
  for name in string.gmatch(redis.call('HGET', P .. 'fmt', 'types') or '', '[^%z]+') do names[#names + 1] = name end
  return names
end

-- The id of a memory type; a new one is given the next, unless it is only asked for.
local type_ids
local function type_id_of(name, only_ask)
  if name == 'generic' then return 0 end
  if not type_ids then
    type_ids = {}
    for id, known in ipairs(stored_types()) do type_ids[known] = id end
  end
  if not type_ids[name] and not only_ask then
    local names = stored_types()
    names[#names + 1] = name
    type_ids[name] = #names
    redis.call('HSET', P .. 'fmt', 'types', table.concat(names, '\0') .. '\0')
  end
  return type_ids[name]
end

-- The error for names of which too many would be new: every client keeps them all, and their ids have 16 bits.
local function too_many_types(named)
  named[''], named['generic'] = nil, nil
  if not next(named) then return nil end
  local known = stored_types()
  local types = #known
  for _, name in ipairs(known) do named[name] = nil end
  for _ in pairs(named) do types = types + 1 end
  if types > MOST_TYPES then return redis.error_reply('ERR too many memory types: at most ' .. MOST_TYPES) end
end

-- What the stored data say of themselves, where this call's ARGV[3..6], or the words that it holds, differ from it.
local format = redis.call('HMGET', P .. 'fmt', 'version', 'buckets', 'dims', 'embedder', 'tokenizer')
local function other_format()
  if (format[1] and (format[1] ~= ARGV[3] or format[2] ~= ARGV[4] or format[5] ~= TOKENIZER))
    or (ARGV[5] ~= '' and format[3] and (format[3] ~= ARGV[5] or format[4] ~= ARGV[6])) then
    return {'FORMAT', format[1], format[2] or '', format[3] or '', format[4] or '', format[5] or ''}
  end
end

local function write_format()
  if not format[1] then
    -- The epoch tells data that were flushed and written anew from those that a client has cached.
    redis.call('HSET', P .. 'fmt', 'version', ARGV[3], 'buckets', ARGV[4], 'tokenizer', TOKENIZER,
      'epoch', ARGV[#ARGV - 1] .. '/' .. ARGV[#ARGV] .. '/' .. count(now))
  end
  if ARGV[5] ~= '' and not format[3] then
    redis.call('HSET', P .. 'fmt', 'dims', ARGV[5], 'embedder', ARGV[6])
  end
end
