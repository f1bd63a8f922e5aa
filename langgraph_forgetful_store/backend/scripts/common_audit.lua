-- Purpose: audit records, for the scripts that add, read or erase them. Stands below common.lua.
-- KEYS/ARGV[1..2]: see common.lua
--
-- audit holds id -> record, and '' -> the number of the latest record. A record is {time, namespace, key, actor, action,
-- reason, details as JSON}, each behind its length. An id is a time and a number, so that ids sort as records were
-- added, also where the clock goes back. audit_t holds all ids; audit_k holds namespace, digest of a text, id for each
-- text that a record names: its key, and every text in its details, among which other keys may be.

local KEEP_AUDIT = 100000
local AUDIT_PARTS = 7

local function pack_record(parts)
  local packed = {}
  for i = 1, AUDIT_PARTS do packed[i] = struct.pack('<I4', #parts[i]) .. parts[i] end
  return table.concat(packed)
end

local function unpack_record(packed)
  local parts, at = {}, 1
  for i = 1, AUDIT_PARTS do
    local length = struct.unpack('<I4', packed, at)
    parts[i] = string.sub(packed, at + 4, at + 3 + length)
    at = at + 4 + length
  end
  return parts
end

local UNESCAPED = {n = '\n', t = '\t', r = '\r', b = '\b', f = '\f'}
local function unescape(kind, hex)
  if kind == 'u' then return string.char(tonumber(hex, 16) % 256) end
  return (UNESCAPED[kind] or kind) .. hex
end

-- The texts in JSON as the client writes it (it escapes quotes, backslashes and control characters alone), but for the
-- names of fields.
local function texts_in(json)
  local found, at = {}, 1
  while true do
    local first = string.find(json, '"', at, true)
    if not first then return found end
    local last = first
    repeat
      last = string.find(json, '["\\]', last + 1)
      if not last then return found end
      local escapes = string.byte(json, last) == 92
      if escapes then last = last + 1 end
    until not escapes
    at = last + 1
    if string.byte(json, at) ~= 58 then
      local text = string.gsub(string.sub(json, first + 1, last - 1), '\\(.)(%x?%x?%x?%x?)', unescape)
      found[#found + 1] = text
    end
  end
end

-- What stands in audit_k for a record.
local function audit_entries(id, parts)
  local entries, seen = {}, {}
  local texts = texts_in(parts[7])
  texts[#texts + 1] = parts[3]
  for _, text in ipairs(texts) do
    if text ~= '' and not seen[text] then
      seen[text] = true
      entries[#entries + 1] = parts[2] .. redis.sha1hex(text) .. id
    end
  end
  return entries
end

local function drop_record(id)
  local packed = redis.call('HGET', P .. 'audit', id)
  if packed then
    for _, entry in ipairs(audit_entries(id, unpack_record(packed))) do redis.call('ZREM', P .. 'audit_k', entry) end
    redis.call('HDEL', P .. 'audit', id)
  end
  redis.call('ZREM', P .. 'audit_t', id)
end

-- Adds a record: who, what, on which row (or '' for none), why, and JSON.
local function audit(ns, actor, action, key, reason, details)
  local time = string.format('%.0f', now)
  local latest = redis.call('ZREVRANGE', P .. 'audit_t', 0, 0)[1]
  local after = math.max(now, latest and tonumber(string.sub(latest, 1, 15)) or 0)
  local id = string.format('%015.0f%012.0f', after, redis.call('HINCRBY', P .. 'audit', '', 1))
  local parts = {time, ns, key, actor, action, reason, details}
  redis.call('HSET', P .. 'audit', id, pack_record(parts))
  redis.call('ZADD', P .. 'audit_t', 0, id)
  for _, entry in ipairs(audit_entries(id, parts)) do redis.call('ZADD', P .. 'audit_k', 0, entry) end
  if redis.call('ZCARD', P .. 'audit_t') > KEEP_AUDIT then
    for _, old in ipairs(redis.call('ZRANGE', P .. 'audit_t', 0, 1)) do drop_record(old) end
  end
end
