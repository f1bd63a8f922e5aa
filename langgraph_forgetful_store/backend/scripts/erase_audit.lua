-- Purpose: erase audit records, a bounded number a call; records of erasures stay where all below a prefix are erased.
-- KEYS/ARGV[1..2]: see common.lua; may be repeated, so it takes no lane
-- ARGV[3]  encoded prefix; ARGV[4] id to go on before, or '+'; ARGV[5] records to look at
-- ARGV[6]  N, or '' for all records below the prefix; then N keys: records of them in this very namespace, and of others
--          that name them
-- Returns  {id to go on before, or '' at the end, how many were erased}

local prefix, look, doomed, reply = ARGV[3], tonumber(ARGV[5]), {}, {'', 0}
if ARGV[6] == '' then
  local start = ARGV[4] == '+' and '+' or '(' .. ARGV[4]
  local ids = redis.call('ZREVRANGEBYLEX', P .. 'audit_t', start, '-', 'LIMIT', 0, look)
  for _, id in ipairs(ids) do
    local one = unpack_record(redis.call('HGET', P .. 'audit', id))
    if string.sub(one[2], 1, #prefix) == prefix and one[5] ~= 'forget' and one[5] ~= 'forget_all' then
      doomed[#doomed + 1] = id
    end
  end
  if #ids == look then reply[1] = ids[look] end
else
  local seen = {}
  for i = 1, tonumber(ARGV[6]) do
    local named = prefix .. redis.sha1hex(ARGV[6 + i])
    -- A colon sorts right behind the digits of ids.
    local entries = redis.call('ZRANGEBYLEX', P .. 'audit_k', '[' .. named, '(' .. named .. ':', 'LIMIT', 0, look - #doomed)
    for _, entry in ipairs(entries) do
      local id = string.sub(entry, #named + 1)
      if not seen[id] then
        seen[id] = true
        doomed[#doomed + 1] = id
      end
    end
    if #doomed >= look then
      -- What is erased now is not found again.
      reply[1] = '+'
      break
    end
  end
end
if #doomed > 0 then
  open_gate()
  for _, id in ipairs(doomed) do drop_record(id) end
  if redis.call('ZCARD', P .. 'audit_t') == 0 then redis.call('DEL', P .. 'audit') end
end
reply[2] = #doomed
return reply
