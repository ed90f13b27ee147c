-- sid or '', number of checks, (kind, path, number)*, number of writes, (kind, path, value, ephemeral)*
-- Returns {1, revision}, or {0, 'C' or 'O', index} of the first condition that does not hold.
enter()
local sid = arg()
if sid ~= '' then require_session(sid) end

local function look(path)
  local record = call('HGET', RECORDS, path)
  if not record then return nil end
  local created, modified, owner = parse(record)
  if not created then fail('MALFORMED ' .. path) end
  return created, modified, owner
end

for i = 1, tonumber(arg()) do
  local kind, path, number = arg(), arg(), arg()
  local created, modified = look(path)
  local holds
  if kind == 'A' then
    holds = not created
  elseif kind == 'E' then
    holds = created
  elseif kind == 'V' then
    holds = created and text(modified) == number
  else
    holds = created and text(created) == number
  end
  if not holds then return { 0, 'C', i - 1 } end
end

local writes, events = {}, {}
for i = 1, tonumber(arg()) do
  local kind, path, value, ephemeral = arg(), arg(), arg(), arg()
  if kind == 'D' then
    -- Also of what cannot be read: this is how it is got rid of.
    local record = call('HGET', RECORDS, path)
    if not record then return { 0, 'O', i - 1 } end
    local _, _, owner = parse(record)
    writes[i] = { path = path, owner = owner or '' }
    events[i] = event('D', path)
  else
    local created, _, owner = look(path)
    if (kind == 'C' and created) or (kind == 'U' and not created) then return { 0, 'O', i - 1 } end
    owner = owner or (ephemeral == '1' and sid or '')
    local record = make(created or rev + 1, owner, value)
    writes[i] = { path = path, owner = owner, record = record, fresh = not created }
    events[i] = event('P', path, record)
  end
end
if #writes == 0 then return { 1, 0 } end

-- Keys of a wrong type must show before the first write.
call('ZCARD', INDEX)
call('ZCARD', OWNED)
commit(rev + 1, events)
for _, write in ipairs(writes) do
  local path = write.path
  if write.record then
    call('HSET', RECORDS, path, write.record)
    if write.fresh then
      call('ZADD', INDEX, 0, path)
      if write.owner ~= '' then call('ZADD', OWNED, 0, write.owner .. '\0' .. path) end
    end
  else
    call('HDEL', RECORDS, path)
    call('ZREM', INDEX, path)
    if write.owner ~= '' then call('ZREM', OWNED, write.owner .. '\0' .. path) end
  end
end
return { 1, rev }
