-- sid or '', number of checks, (kind, path, number)*, number of writes, (kind, path, value, ephemeral)*
-- Returns {1, revision}, or {0, 'C' or 'O', index} of the first condition that does not hold.
enter()
local sid = arg()
if sid ~= '' then require_session(sid) end

-- Exact for whole numbers below 2^53, which revisions are until the year 2255.
local function text(number)
  return string.format('%.0f', number)
end

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
local indexed, owned
for i = 1, tonumber(arg()) do
  local kind, path, value, ephemeral = arg(), arg(), arg(), arg()
  local owner
  if kind == 'D' then
    -- Also of what cannot be read: this is how it is got rid of.
    local record = call('HGET', RECORDS, path)
    if not record then return { 0, 'O', i - 1 } end
    local _, _, found = parse(record)
    owner = found or ''
    writes[i] = { path, owner }
    events[i] = event('D', path)
    indexed, owned = true, owned or owner ~= ''
  else
    local created, _, found = look(path)
    if (kind == 'C' and created) or (kind == 'U' and not created) then return { 0, 'O', i - 1 } end
    owner = found or (ephemeral == '1' and sid or '')
    local record = make(created or rev + 1, owner, value)
    writes[i] = { path, owner, record, not created }
    events[i] = event('P', path, record)
    if not created then indexed, owned = true, owned or owner ~= '' end
  end
end
if #writes == 0 then return { 1, 0 } end

-- Keys of a wrong type must show before the first write.
if indexed then call('ZCARD', INDEX) end
if owned then call('ZCARD', OWNED) end
commit(rev + 1, events)
for _, write in ipairs(writes) do
  local path, owner, record, fresh = write[1], write[2], write[3], write[4]
  if record then
    call('HSET', RECORDS, path, record)
    if fresh then
      call('ZADD', INDEX, 0, path)
      if owner ~= '' then call('ZADD', OWNED, 0, owner .. '\0' .. path) end
    end
  else
    call('HDEL', RECORDS, path)
    call('ZREM', INDEX, path)
    if owner ~= '' then call('ZREM', OWNED, owner .. '\0' .. path) end
  end
end
return { 1, rev }
