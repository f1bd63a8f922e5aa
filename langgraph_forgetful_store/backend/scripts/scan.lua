-- Purpose: one window of a scan over the rows below a prefix, namespace after namespace, oldest write first: the active
--          ones, then, where they are asked for, those that are archived or superseded.
--          A row that is put meanwhile moves ahead of the scan, never behind it.
-- KEYS/ARGV[1..2]: see common.lua; read only
-- ARGV[3]  encoded prefix; ARGV[4] namespace to start at, encoded; ARGV[5] change number there to start after, with a z in
--          front where the active rows are done
-- ARGV[6]  rows at the most; ARGV[7] bytes at the most, but one row of any size; ARGV[8] namespaces to look at
-- ARGV[9]  '1': return vectors; ARGV[10] return values of up to this many bytes, 0 for none
-- ARGV[11] '1': archived and superseded rows too; 'x': expired ones too; 'e': expired ones alone
-- ARGV[12] change number after which rows are left out, or '+inf'
-- Returns  {change number of the store, time, memory types, epoch, '1' where the scan is at its end, next namespace,
--          next number,
--          {namespace, {key, meta, vectors, value, rest}, ...}, ...}
-- Reads c:, z:, m:, e:, v: and x: of the namespaces it finds, all under the prefix in KEYS[1].

local prefix, from, after = ARGV[3], ARGV[4], ARGV[5]
local rows_left, bytes_left, look = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local with_vectors, value_bytes = ARGV[9] == '1', tonumber(ARGV[10])
local with_closed, with_expired = ARGV[11] == '1' or ARGV[11] == 'x', ARGV[11] == 'x' or ARGV[11] == 'e'
local stop = prefix == '' and '+' or '(' .. prefix .. '\255'
local start = from == '' and '-' or '[' .. from

local format = redis.call('HMGET', P .. 'fmt', 'types', 'epoch')
local reply = {redis.call('GET', P .. 'seq') or '0', string.format('%.0f', now), format[1], format[2], '0', '', '0'}
local STEP = 100
-- The vectors of a step are read together, before they can be counted: so many rows as should fit by the largest yet.
local step, largest, is_empty = with_vectors and 10 or STEP, 1, true

-- Reads rows into a group, and returns how many of them fit.
local function read(s, keys, group)
  local metas = redis.call('HMGET', s.m, unpack(keys))
  local live, live_metas, places = {}, {}, {}
  for i, key in ipairs(keys) do
    local meta = metas[i]
    if meta and (with_expired or not (intact(meta) and gone(meta))) then
      live[#live + 1] = key
      live_metas[#live], places[#live] = meta, i
    end
  end
  if #live == 0 then return #keys end
  local vectors = with_vectors and redis.call('HMGET', s.e, unpack(live))
  local rest = redis.call('HLEN', s.x) > 0 and redis.call('HMGET', s.x, unpack(live))
  for i, key in ipairs(live) do
    local meta = live_metas[i]
    local blob = vectors and vectors[i] or false
    local size = intact(meta) and struct.unpack('<I4', meta, AT_VALUE_BYTES) or math.huge
    local wanted = size <= value_bytes
    local bytes = #meta + (blob and #blob or 0) + (wanted and size or 0)
    largest = math.max(largest, blob and #blob or 0)
    if bytes > bytes_left and not is_empty then
      bytes_left = 0
      return places[i] - 1
    end
    local value = value_bytes > 0 and wanted and redis.call('HGET', s.v, key)
    group[#group + 1] = {key, meta, blob, value, rest and rest[i] or false}
    bytes_left, is_empty = bytes_left - bytes, false
  end
  return #keys
end

while true do
  local names = redis.call('ZRANGEBYLEX', P .. 'nsl', start, stop, 'LIMIT', 0, 64)
  for _, ns in ipairs(names) do
    local s = space(ns)
    local group = {ns}
    while true do
      local is_closed = string.sub(after, 1, 1) == 'z'
      local set = is_closed and s.z or s.c
      local room, keys = math.min(step, rows_left), {}
      local pairs_ = redis.call('ZRANGEBYSCORE', set, '(' .. string.gsub(after, 'z', ''), ARGV[12], 'WITHSCORES', 'LIMIT', 0, room)
      for i = 1, #pairs_, 2 do keys[#keys + 1] = pairs_[i] end
      local done = #keys > 0 and read(s, keys, group) or 0
      if done > 0 then after = (is_closed and 'z' or '') .. pairs_[2 * done] end
      if done == #keys and #keys < room then
        if is_closed or not with_closed then break end
        after = 'z0'
      end
      rows_left = rows_left - done
      step = math.max(1, math.min(STEP, math.floor(bytes_left / largest)))
      if rows_left == 0 or bytes_left <= 0 then
        if #group > 1 then reply[#reply + 1] = group end
        reply[6], reply[7] = ns, after
        return reply
      end
    end
    if #group > 1 then reply[#reply + 1] = group end
    after, start, look = '0', '(' .. ns, look - 1
    if look == 0 or bytes_left <= 0 then
      -- Nothing sorts between a namespace and itself followed by a zero byte.
      reply[6] = ns .. '\0'
      return reply
    end
  end
  if #names < 64 then
    reply[5] = '1'
    return reply
  end
end
