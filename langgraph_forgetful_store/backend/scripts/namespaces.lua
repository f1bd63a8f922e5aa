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

local function holds_rows(ns)
  local rows = redis.call('ZCARD', P .. 'c:' .. ns)
  if rows > 0 and not omit then return true end
  local earliest = omit and redis.call('ZSCORE', P .. 'exp', ns)
  if rows > 0 and not (earliest and tonumber(earliest) <= now) then return true end
  rows = rows + redis.call('ZCARD', P .. 'z:' .. ns)
  return rows > 0 and not (omit and redis.call('ZCOUNT', P .. 't:' .. ns, '-inf', now) >= rows)
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
  local last
  for _, ns in ipairs(chunk) do
    looked = looked + 1
    if last and string.sub(ns, 1, #last) == last then
      -- Listed under its cut name already, and `start` is past all that share it.
    elseif holds_rows(ns) then
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
  if #chunk == 0 then return found end
  if looked >= look then
    found[1] = start
    return found
  end
end
