-- Purpose: what every script starts with. The loader puts the layout of the meta record (codec.py) above it.
-- KEYS[1]  the store's prefix. It routes the call; every key touched starts with it, under its hash tag.
-- ARGV[1]  the time in ms since the epoch, or '' for the server's own; behind a '>' the latest that the client has seen:
--          below that, by BOUND at the most, the time does not go
-- ARGV[2]  '1': a row is gone from the millisecond of its expiry on; '0': it stays until it is swept

local P = KEYS[1]
local SEPARATOR = '\0\1'

local BOUND = 300000
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
  local seen = tonumber(string.sub(ARGV[1], 2))
  if seen and seen > now and seen <= now + BOUND then now = seen end
end
local omit = ARGV[2] == '1'

local function space(ns)
  return {
    ns = ns, c = P .. 'c:' .. ns, z = P .. 'z:' .. ns, l = P .. 'l:' .. ns, d = P .. 'd:' .. ns, h = P .. 'h:' .. ns,
    t = P .. 't:' .. ns, m = P .. 'm:' .. ns, x = P .. 'x:' .. ns, e = P .. 'e:' .. ns, v = P .. 'v:' .. ns,
    s = P .. 's:' .. ns, o = P .. 'o:' .. ns, g = P .. 'g:' .. ns, w = P .. 'w:' .. ns,
  }
end

-- A number as bytes that sort as it does.
local function sortable(number)
  local bytes = struct.pack('>d', number)
  local first = string.byte(bytes, 1)
  if first < 128 then return string.char(first + 128) .. string.sub(bytes, 2) end
  return (string.gsub(bytes, '.', function(byte) return string.char(255 - string.byte(byte)) end))
end

local function double(meta, at)
  return (struct.unpack('<d', meta, at))
end

-- Where a type is archived by its expiry, the row stays.
local function gone(meta)
  return omit and double(meta, AT_EXPIRES_AT) <= now and struct.unpack('<H', meta, AT_FLAGS) % (ARCHIVES + ARCHIVES) < ARCHIVES
end

local function archives(meta)
  return struct.unpack('<H', meta, AT_FLAGS) % (ARCHIVES + ARCHIVES) >= ARCHIVES
end

local function closes(status, reason)
  return status == SUPERSEDED or reason > 0
end

local function has(flags, flag)
  return flags % (flag + flag) >= flag
end

-- A start or an end that was not ahead of the clock when it was written has passed for every reader. See status.py.
local function has_begun(meta)
  return not has(struct.unpack('<H', meta, AT_FLAGS), AHEAD) or double(meta, AT_VALID_FROM) <= now
end

local function has_ended(meta)
  local until_ = double(meta, AT_VALID_UNTIL)
  return until_ < math.huge and (not has(struct.unpack('<H', meta, AT_FLAGS), END_AHEAD) or until_ <= now)
end

-- Whether a row's expiry has archived it.
local function lapsed(meta)
  return archives(meta) and double(meta, AT_EXPIRES_AT) <= now
end

-- The meta of a row as its status is now: one that is to be closed later is active or archived until then, and one whose
-- type is archived by its expiry is archived from then on. See status.py.
local function as_of_now(meta)
  local stored, status = string.byte(meta, AT_STATUS), ACTIVE
  if closes(stored, string.byte(meta, AT_REASON)) and has_ended(meta) then
    status = SUPERSEDED
  elseif stored == ARCHIVED or lapsed(meta) then
    status = ARCHIVED
  end
  -- What is no status is for the client to report.
  if status == stored or stored > SUPERSEDED then return meta end
  return string.sub(meta, 1, AT_STATUS - 1) .. string.char(status) .. string.sub(meta, AT_STATUS + 1)
end

local function intact(meta)
  return #meta == META_BYTES
end

-- One of a row's packed fields by its id, or nil.
local function field(packed, wanted)
  local at = 1
  while at + 4 <= #packed do
    local id, length = struct.unpack('<BI4', packed, at)
    if id == wanted then return string.sub(packed, at + 5, at + 4 + length) end
    at = at + 5 + length
  end
end

-- At maxmemory a script may go on writing once it has written, and only some commands may be the first.
local function open_gate()
  redis.call('HDEL', P .. 'ops', '')
end
