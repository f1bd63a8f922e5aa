-- Purpose: the newest rows below a prefix under which one namespace holds rows, straight from its live index and
--          without the rows that time has taken out.
-- KEYS/ARGV[1..2]: see common.lua; writes only refreshes, which may be repeated, so it takes no lane
-- ARGV[3]  encoded prefix; ARGV[4] offset; ARGV[5] limit, 1 at the least; ARGV[6] '1': refresh TTLs
-- ARGV[7]  how many rows it may look at
-- Returns  {namespace, {key, meta, value, rest}, ...} latest write first; or nil where several namespaces hold rows, or
--          it may not look at so many
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
local s = space(ns)
local offset, limit, allowed = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[7])
local keys = {}
if not omit or redis.call('ZCOUNT', s.t, '-inf', now) == 0 then
  keys = redis.call('ZREVRANGE', s.c, offset, offset + limit - 1)
else
  local start = 0
  while #keys < limit do
    local chunk = redis.call('ZREVRANGE', s.c, start, start + 99)
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
end

local rows = {ns}
for _, key in ipairs(keys) do
  local row = read_row(s, key, ARGV[6] == '1', true)
  if row then
    rows[#rows + 1] = {key, row[1], row[2], row[3]}
  end
end
write_refreshes()
return rows
