-- Ends a session: all its keys go at one revision.
local function drop(sid)
  local owned = call('ZRANGEBYLEX', OWNED, '[' .. sid .. '\0', '(' .. sid .. '\1')
  local events, doomed = {}, {}
  for _, member in ipairs(owned) do
    local path = string.sub(member, #sid + 2)
    local record = call('HGET', RECORDS, path)
    if record then
      local created, _, owner = parse(record)
      if not created or owner == sid then
        events[#events + 1] = event('D', path)
        doomed[#doomed + 1] = path
      end
    end
  end
  events[#events + 1] = event('S', sid)
  commit(rev + 1, events)
  for _, path in ipairs(doomed) do
    call('HDEL', RECORDS, path)
    call('ZREM', INDEX, path)
  end
  if #owned > 0 then
    call('ZREMRANGEBYLEX', OWNED, '[' .. sid .. '\0', '(' .. sid .. '\1')
  end
  call('ZREM', DEADLINES, sid)
  call('HDEL', TTLS, sid)
end

-- Ends sessions that are past their deadline; few at a time, so that the script stays short.
local function reap()
  local due = call('ZRANGEBYSCORE', DEADLINES, '-inf', now, 'LIMIT', 0, 20)
  for _, sid in ipairs(due) do drop(sid) end
  return #due
end
