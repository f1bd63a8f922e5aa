-- Purpose: the newest rows below a prefix under which one namespace holds rows, straight from its live index and
--          without the rows that time has taken out.
-- KEYS/ARGV[1..2]: see common.lua; writes only refreshes, which may be repeated, so it takes no lane
-- ARGV[3]  encoded prefix; ARGV[4] offset; ARGV[5] limit, 1 at the least; ARGV[6] '1': refresh TTLs
-- ARGV[7]  how many rows it may look at; ARGV[8] bytes of values at about the most, but one row of any size
-- Returns  {namespace, {key, meta, value, rest, type}, ...} latest write first; or nil where several namespaces hold rows, or
--          it may not look at so many, or the values are too large for one reply
-- Reads the namespace it finds, under the prefix in KEYS[1].

local prefix = ARGV[3]
local range = {prefix == '' and '-' or '[' .. prefix, prefix == '' and '+' or '(' .. prefix .. '\255'}
local names = redis.call('ZRANGEBYLEX', P .. 'nsl', range[1], range[2], 'LIMIT', 0, 16)
if #names == 16 then return false end
local ns
for _, name in ipairs(names) do
  if redis.call('ZCARD', P .. 'c:' .. name) > 0 then
    if ns then return false end
    ns = name
  end
end
if not ns then return {''} end
-- Rows that listings leave out are few, and where there are any the live index alone does not tell.
if redis.call('ZCARD', P .. 'h:' .. ns) > 0 then return false end
local s, active = row_space(ns), P .. 'c:' .. ns
local offset, limit, allowed = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[7])
local keys = {}

-- Walks over the newest rows; false where that takes too many.
local function walk()
  local start = 0
  while #keys < limit do
    local chunk = redis.call('ZREVRANGE', active, start, start + 99)
    for _, key in ipairs(chunk) do
      local expires = redis.call('ZSCORE', s.t, key)
      if not (expires and tonumber(expires) <= now) then
        if offset > 0 then
          offset = offset - 1
        else
          keys[#keys + 1] = key
          if #keys == limit then break end
        end
      end
    end
    start = start + #chunk
    if #chunk < 100 then break end
    if start >= allowed and #keys < limit then return false end
  end
  return true
end

-- Goes straight to the page by the ranks of the rows that time has taken out.
local function jump()
  local ranks, taken = {}, {}
  for _, key in ipairs(redis.call('ZRANGEBYSCORE', s.t, '-inf', now)) do
    local rank = redis.call('ZREVRANK', active, key)
    if rank then
      ranks[#ranks + 1] = rank
      taken[rank] = true
    end
  end
  table.sort(ranks)
  local before = 0
  local function rank_of(place)
    while before < #ranks and ranks[before + 1] <= place + before do before = before + 1 end
    return place + before
  end
  local first = rank_of(offset)
  for i, key in ipairs(redis.call('ZREVRANGE', active, first, rank_of(offset + limit - 1))) do
    if not taken[first + i - 1] then keys[#keys + 1] = key end
  end
end

local expired = omit and redis.call('ZCOUNT', s.t, '-inf', now) or 0
if expired == 0 then
  keys = redis.call('ZREVRANGE', active, offset, offset + limit - 1)
elseif expired < offset + limit and expired <= allowed then
  jump()
elseif not walk() then
  return false
end

local rows, bytes_left = {ns}, tonumber(ARGV[8])
for _, key in ipairs(keys) do
  local row = read_row(s, key, ARGV[6] == '1', true)
  if row then
    bytes_left = bytes_left - (row[2] and #row[2] or 0)
    if bytes_left < 0 and #rows > 1 then return false end
    rows[#rows + 1] = {key, row[1], row[2], row[3], row[4]}
  end
end
write_refreshes()
return rows
