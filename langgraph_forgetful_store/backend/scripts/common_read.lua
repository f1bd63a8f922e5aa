-- Purpose: what scripts share that return rows and slide their TTLs. Stands below common.lua.
-- KEYS/ARGV[1..2]: see common.lua

local function row_space(ns)
  local x = P .. 'x:' .. ns
  return {t = P .. 't:' .. ns, m = P .. 'm:' .. ns, x = redis.call('HLEN', x) > 0 and x, v = P .. 'v:' .. ns}
end

local type_names
local function type_name(meta)
  local id = struct.unpack('<H', meta, AT_MEMORY_TYPE)
  if id == 0 then return false end
  if not type_names then
    type_names = {}
    for name in string.gmatch(redis.call('HGET', P .. 'fmt', 'types') or '', '[^%z]+') do
      type_names[#type_names + 1] = name
    end
  end
  return type_names[id] or false
end

-- Reads a row: nil where it is absent or expired, 0 where its content number is not `expected` (nil for any), else
-- {meta, value, rest, name of its type or nil for a generic one}. The expiry test, the refresh that it guards and the read are one step. A refresh writes meta
-- and TTL index and is not logged, so an expires_at that a client has cached stays a lower bound.
local refreshed = {}
local function read_row(s, key, refresh, with_value, expected)
  local meta = redis.call('HGET', s.m, key)
  if not meta then return false end
  -- The client reports what is no meta record.
  if not intact(meta) then return {meta, false, false, false} end
  if gone(meta) then return false end
  if expected and double(meta, AT_CONTENT) ~= expected then return 0 end
  local row = {meta, with_value and redis.call('HGET', s.v, key), s.x and redis.call('HGET', s.x, key), type_name(meta)}
  local ttl = refresh and double(meta, AT_TTL) or math.huge
  if ttl < math.huge then
    local expires, flags = now + ttl, struct.unpack('<H', meta, AT_FLAGS)
    if flags % (PINNED + PINNED) < PINNED and flags % (ABSOLUTE + ABSOLUTE) < ABSOLUTE
      and expires > double(meta, AT_EXPIRES_AT) and not (archives(meta) and double(meta, AT_EXPIRES_AT) <= now) then
      row[1] = string.sub(meta, 1, AT_EXPIRES_AT - 1) .. struct.pack('<d', expires)
        .. string.sub(meta, AT_EXPIRES_AT + 8)
      if not s.expiries then
        s.expiries, s.metas = {}, {}
        refreshed[#refreshed + 1] = s
      end
      local expiries, metas = s.expiries, s.metas
      -- Where its expiry archives, it is in no index of what expires.
      if not archives(meta) then expiries[#expiries + 1], expiries[#expiries + 2] = expires, key end
      metas[#metas + 1], metas[#metas + 2] = key, row[1]
    end
  end
  row[1] = as_of_now(row[1])
  return row
end

-- Writes what read_row refreshed, when all rows have been read and nothing can fail any more.
local function write_refreshes()
  -- The first is proved by its ZADD, which comes before all other writes.
  for i = 2, #refreshed do
    redis.call('ZCARD', refreshed[i].t)
  end
  for _, s in ipairs(refreshed) do
    if #s.expiries == 0 then
      open_gate()
    elseif type(redis.pcall('ZADD', s.t, unpack(s.expiries))) == 'table' then
      open_gate()
      redis.call('ZADD', s.t, unpack(s.expiries))
    end
    redis.call('HSET', s.m, unpack(s.metas))
  end
end
