-- Purpose: list namespaces that hold a row which a read can return, without reading rows.
-- KEYS/ARGV[1..2]: see common.lua; read only
-- ARGV[3]  encoded prefix; ARGV[4] where to start: '' or a lexicographic bound such as '(' .. namespace
-- ARGV[5]  how many to return at the most; ARGV[6] how many to look at; ARGV[7] depth to cut names to, 0 for none
-- Returns  {bound to go on from, or '' at the end, namespaces, ...}: cut, and of equal ones the first only
-- Reads c:, z: and t: of the namespaces it finds, all under the prefix in KEYS[1].

local prefix, start = ARGV[3], ARGV[4]
local want, look, depth = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local stop = prefix == '' and '+' or '(' .. prefix .. '\255'
if start == '' then start = prefix == '' and '-' or '[' .. prefix end

local function all_expired(ns)
  local rows = redis.call('ZCARD', P .. 'c:' .. ns) + redis.call('ZCARD', P .. 'z:' .. ns)
  return redis.call('ZCOUNT', P .. 't:' .. ns, '-inf', now) >= rows
end

-- The first `depth` labels of a name, or nil where it has fewer.
local function cut(ns)
  if depth == 0 then return nil end
  local at = 1
  for _ = 1, depth do
    local _, last = string.find(ns, SEPARATOR, at, true)
    if not last then return nil end
    at = last + 1
  end
  return string.sub(ns, 1, at - 1)
end

local found, looked = {''}, 0
while true do
  local chunk = redis.call('ZRANGEBYLEX', P .. 'nsl', start, stop, 'LIMIT', 0, math.min(100, look - looked))
  if #chunk == 0 then return found end
  -- A namespace without rows is in `dead`, one in which a row has expired is due in `exp`: two calls sort out a chunk.
  local dead = redis.call('ZMSCORE', P .. 'dead', unpack(chunk))
  local due = omit and redis.call('ZMSCORE', P .. 'exp', unpack(chunk)) or {}
  local last
  for i, ns in ipairs(chunk) do
    looked = looked + 1
    if last and string.sub(ns, 1, #last) == last then
      -- Listed under its cut name already, and `start` is past all that share it.
    elseif not dead[i] and not (due[i] and tonumber(due[i]) <= now and all_expired(ns)) then
      last = cut(ns)
      found[#found + 1] = last or ns
      start = '(' .. (last and last .. '\255' or ns)
      if #found > want then
        found[1] = start
        return found
      end
    else
      start = '(' .. ns
    end
  end
  if looked >= look then
    found[1] = start
    return found
  end
end
