-- Purpose: one window of a scan over the active rows below a prefix, namespace after namespace, oldest write first.
--          A row that is put meanwhile moves ahead of the scan, never behind it.
-- KEYS/ARGV[1..2]: see common.lua; read only
-- ARGV[3]  encoded prefix; ARGV[4] namespace to start at, encoded; ARGV[5] change number there to start after
-- ARGV[6]  rows at the most; ARGV[7] bytes at about the most; ARGV[8] namespaces to look at
-- ARGV[9]  '1': return vectors; ARGV[10] return values of up to this many bytes, 0 for none
-- Returns  {change number of the store, time, memory types, '1' where the scan is at its end, next namespace, next number,
--          {namespace, {key, meta, vectors, value, rest}, ...}, ...}
-- Reads c:, m:, e:, v: and x: of the namespaces it finds, all under the prefix in KEYS[1].

local prefix, from, after = ARGV[3], ARGV[4], ARGV[5]
local rows_left, bytes_left, look = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local with_vectors, value_bytes = ARGV[9] == '1', tonumber(ARGV[10])
local stop = prefix == '' and '+' or '(' .. prefix .. '\255'
local start = from == '' and '-' or '[' .. from

local reply = {redis.call('GET', P .. 'seq') or '0', string.format('%.0f', now),
  redis.call('HGET', P .. 'fmt', 'types'), '0', '', '0'}
local STEP = 100

local function read(s, keys, group)
  local metas = redis.call('HMGET', s.m, unpack(keys))
  local live, live_metas, values_wanted = {}, {}, {}
  for i, key in ipairs(keys) do
    local meta = metas[i]
    if meta and not (intact(meta) and gone(meta)) then
      live[#live + 1] = key
      live_metas[#live] = meta
    end
  end
  if #live == 0 then return end
  local vectors = with_vectors and redis.call('HMGET', s.e, unpack(live))
  local rest = redis.call('HLEN', s.x) > 0 and redis.call('HMGET', s.x, unpack(live))
  for i, key in ipairs(live) do
    local meta = live_metas[i]
    local value = false
    if value_bytes > 0 and intact(meta) and struct.unpack('<I4', meta, AT_VALUE_BYTES) <= value_bytes then
      value = redis.call('HGET', s.v, key)
    end
    local blob = vectors and vectors[i] or false
    group[#group + 1] = {key, meta, blob, value, rest and rest[i] or false}
    bytes_left = bytes_left - #meta - (blob and #blob or 0) - (value and #value or 0)
  end
end

while true do
  local names = redis.call('ZRANGEBYLEX', P .. 'nsl', start, stop, 'LIMIT', 0, 64)
  for _, ns in ipairs(names) do
    local s = space(ns)
    local group = {ns}
    while true do
      local pairs_ = redis.call('ZRANGEBYSCORE', s.c, '(' .. after, '+inf', 'WITHSCORES',
        'LIMIT', 0, math.min(STEP, rows_left))
      local keys = {}
      for i = 1, #pairs_, 2 do keys[#keys + 1] = pairs_[i] end
      if #keys > 0 then
        read(s, keys, group)
        after = pairs_[#pairs_]
      end
      rows_left = rows_left - #keys
      if #keys == 0 or (#keys < STEP and rows_left > 0) then break end
      if rows_left == 0 or bytes_left <= 0 then
        if #group > 1 then reply[#reply + 1] = group end
        reply[5], reply[6] = ns, after
        return reply
      end
    end
    if #group > 1 then reply[#reply + 1] = group end
    after, start, look = '0', '(' .. ns, look - 1
    if look == 0 or bytes_left <= 0 then
      -- Nothing sorts between a namespace and itself followed by a zero byte.
      reply[5] = ns .. '\0'
      return reply
    end
  end
  if #names < 64 then
    reply[4] = '1'
    return reply
  end
end
