-- Purpose: what scripts share that write rows. Stands below common.lua.
-- KEYS/ARGV[1..2]: see common.lua
-- ARGV ends with two more: the client's lane, with the call's place in its pipeline, and the number of that pipeline.
-- A call that was carried out before (redis-py sends again when a reply was lost) is answered and not repeated.

local KEEP_LOGGED = 1024
local KEEP_DEAD = 1024
local KEEP_LANES = 1024
local LOOK_AT_LANES = 32
local LANE_MS = 600000

local function count(n)
  return string.format('%.0f', n)
end

-- The result of this very call, if it was carried out before.
local function result_before()
  local last = redis.call('HGET', P .. 'ops', ARGV[#ARGV - 1])
  if last then
    local number, result = string.match(last, '^(%d+) %S+ (.*)$')
    if tonumber(number) >= tonumber(ARGV[#ARGV]) then
      return result
    end
  end
end

local function remember_result(result)
  local lane, number = ARGV[#ARGV - 1], ARGV[#ARGV]
  local new = redis.call('HSET', P .. 'ops', lane, number .. ' ' .. count(now) .. ' ' .. result) == 1
  if new and redis.call('HLEN', P .. 'ops') > KEEP_LANES then
    -- A few of them, by chance: old ones go away as new ones come, and however many are young, no call takes long.
    local lanes = redis.call('HRANDFIELD', P .. 'ops', LOOK_AT_LANES, 'WITHVALUES')
    for i = 1, #lanes, 2 do
      local at = tonumber(string.match(lanes[i + 1], '^%d+ (%S+)'))
      if at and at < now - LANE_MS then
        redis.call('HDEL', P .. 'ops', lanes[i])
      end
    end
  end
end

-- Fails where a key is of another type, so that a script which writes does so before its first write.
local function prove_types(s)
  redis.call('ZCARD', s.c)
  redis.call('HLEN', s.v)
  s.has_m = redis.call('HLEN', s.m) > 0
  s.has_z, s.has_l = redis.call('ZCARD', s.z) > 0, redis.call('ZCARD', s.l) > 0
  s.has_h = redis.call('ZCARD', s.h) > 0
  s.has_d, s.has_t = redis.call('ZCARD', s.d) > 0, redis.call('ZCARD', s.t) > 0
  s.has_x, s.has_e = redis.call('HLEN', s.x) > 0, redis.call('HLEN', s.e) > 0
  s.has_s, s.has_o = redis.call('HLEN', s.s) > 0, redis.call('ZCARD', s.o) > 0
end

-- Whether the keys of a namespace are of their types. Where something else has written over one, that is the trouble of
-- this namespace alone: what serves several passes it over, rather than fail for all of them for ever.
local function is_sound(s)
  local sound, problem = pcall(prove_types, s)
  if not sound and not string.find(type(problem) == 'table' and problem.err or problem, 'WRONGTYPE', 1, true) then
    error(problem, 0)
  end
  return sound
end

local function prove_shared_types()
  for _, name in ipairs({'nsv', 'nsl', 'exp', 'dead'}) do
    redis.call('ZCARD', P .. name)
  end
  redis.call('HLEN', P .. 'pv')
  redis.call('HLEN', P .. 'flr')
  redis.call('HLEN', P .. 'audit')
  redis.call('ZCARD', P .. 'audit_t')
  redis.call('ZCARD', P .. 'audit_k')
end

-- Every namespace that `ns` lies below, `ns` first, the whole store ('') last.
local function prefixes(ns)
  local ends, found = {}, 0
  local at = 1
  while true do
    local _, last = string.find(ns, SEPARATOR, at, true)
    if not last then break end
    found = found + 1
    ends[found] = last
    at = last + 1
  end
  local all = {}
  for i = found, 1, -1 do
    all[#all + 1] = string.sub(ns, 1, ends[i])
  end
  all[#all + 1] = ''
  return all
end

-- Notes that a namespace has changed; write_changes writes what was noted, since namespaces share prefixes and need
-- not come in the order of their numbers.
local changed = {}
local function note_change(ns, number)
  redis.call('ZADD', P .. 'nsv', number, ns)
  for _, prefix in ipairs(prefixes(ns)) do
    changed[prefix] = math.max(changed[prefix] or 0, number)
  end
end

local function write_changes()
  for prefix, number in pairs(changed) do
    redis.call('HSET', P .. 'pv', prefix, count(number))
  end
end

local function note_expiry(s)
  local head = redis.call('ZRANGE', s.t, 0, 0, 'WITHSCORES')
  if head[1] then
    redis.call('ZADD', P .. 'exp', head[2], s.ns)
  else
    redis.call('ZREM', P .. 'exp', s.ns)
  end
end

-- Bounds a log of a namespace (tombstones, or changes of meta alone) and keeps the number up to which it is pruned.
local function prune_log(s, log)
  local size = redis.call('ZCARD', log)
  if size > KEEP_LOGGED then
    local last = size - KEEP_LOGGED / 2 - 1
    local cut = redis.call('ZRANGE', log, last, last, 'WITHSCORES')
    redis.call('ZREMRANGEBYRANK', log, 0, last)
    local floor = tonumber(redis.call('HGET', P .. 'flr', s.ns) or '0')
    if tonumber(cut[2]) > floor then redis.call('HSET', P .. 'flr', s.ns, cut[2]) end
  end
end

-- A namespace without rows keeps its tombstones until so many others have died after it that they are pruned.
local function prune_dead()
  local over = redis.call('ZCARD', P .. 'dead') - KEEP_DEAD
  if over <= 0 then return end
  local dead = redis.call('ZRANGE', P .. 'dead', 0, math.min(over, 16) - 1, 'WITHSCORES')
  for i = 1, #dead, 2 do
    local ns = dead[i]
    local s = space(ns)
    redis.call('DEL', s.d, s.l, s.s, s.o)
    redis.call('HDEL', P .. 'flr', ns)
    redis.call('ZREM', P .. 'nsv', ns)
    redis.call('ZREM', P .. 'nsl', ns)
    redis.call('ZREM', P .. 'dead', ns)
    for _, prefix in ipairs(prefixes(ns)) do
      if prefix ~= '' and redis.call('ZLEXCOUNT', P .. 'nsl', '[' .. prefix, '(' .. prefix .. '\255') == 0 then
        redis.call('HDEL', P .. 'pv', prefix)
      end
    end
    redis.call('HSET', P .. 'flr', '', dead[i + 1])
  end
end

-- The caller has proved the types of every namespace before, and removes something.
local function begin_removals()
  prove_shared_types()
  open_gate()
end
