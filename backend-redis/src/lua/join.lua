-- sid, prefix of the directory, name up to the number, value, ephemeral, most names of the line to return
-- Returns {path, created, revision, whether the names are all, names}.
enter()
local sid, prefix, name, value, ephemeral, most = arg(), arg(), arg(), arg(), arg(), tonumber(arg())
require_session(sid)

-- The name without its number is the nonce: a retry finds what the first try made.
local path = call('ZRANGEBYLEX', INDEX, '[' .. prefix .. name, '(' .. prefix .. name .. ':', 'LIMIT', 0, 1)[1]
local record = path and call('HGET', RECORDS, path)
local created = record and parse(record)
if record and not created then fail('MALFORMED ' .. path) end
if created then
  -- WAIT counts from the last write of its own connection: without one here it would confirm nothing.
  call('HSET', META, 'rev', rev)
else
  created = rev + 1
  path = prefix .. name .. string.format('%020.0f', created)
  local owner = ephemeral == '1' and sid or ''
  record = make(created, owner, value)
  -- Keys of a wrong type must show before the first write.
  call('HGET', RECORDS, path)
  call('ZCARD', OWNED)
  commit(created, { event('P', path, record) })
  call('HSET', RECORDS, path, record)
  call('ZADD', INDEX, 0, path)
  if owner ~= '' then call('ZADD', OWNED, 0, owner .. '\0' .. path) end
end
local names, all = {}, 0
if most > 0 then names, all = children(prefix, most) end
return { path, created, rev, all, names }
