-- ARGV[1] is the id of the server's process, ARGV[2] how many entries the log keeps; the rest is the script's.
local SERVER, LOG_MAX = ARGV[1], ARGV[2]
-- About as many bytes the log may hold before it is cut to half of its entries.
local LOG_BYTES = 67108864
-- A server clock that moved this much (ms) since the last look has jumped: the library looks every second.
local JUMP = 5000

local rev, size, now

local at = 2
local function arg()
  at = at + 1
  return ARGV[at]
end

local function event(kind, a, b)
  b = b or ''
  return struct.pack('>BI4I4', string.byte(kind), #a, #b) .. a .. b
end

-- Moves the state to revision `to`, with what changed. The log goes first: if it cannot be written, nothing is.
-- Numbers go to commands as they are: servers write whole ones out exactly, as Lua's own `..` would not.
local function commit(to, events)
  local changes = table.concat(events)
  local total = size + #changes
  call('XADD', LOG, 'MAXLEN', '~', LOG_MAX, to, 'p', rev, 's', total, 'o', changes)
  call('HSET', META, 'rev', to, 'size', total)
  rev, size = to, total
  if #changes > 8192 then
    local first = call('XRANGE', LOG, '-', '+', 'COUNT', 1)[1]
    if first and total - (tonumber(first[2][4]) or 0) > LOG_BYTES then
      call('XTRIM', LOG, 'MAXLEN', math.max(1, math.floor(call('XLEN', LOG) / 2)))
    end
  end
end

local function each_session(deadline)
  local sessions = call('ZRANGE', DEADLINES, 0, -1, 'WITHSCORES')
  for i = 1, #sessions, 2 do
    call('ZADD', DEADLINES, deadline(sessions[i], tonumber(sessions[i + 1])), sessions[i])
  end
end

-- The first script of every change: the state as it is, on the server as it is.
local function enter()
  local time = call('TIME')
  local micros = tonumber(time[1]) * 1000000 + tonumber(time[2])
  now = math.floor(micros / 1000)
  local meta = call('HMGET', META, 'schema', 'rev', 'run', 'size', 'tick')
  if meta[1] then check_schema(meta[1]) end
  rev, size = tonumber(meta[2] or '0'), tonumber(meta[4] or '0')
  if not rev or not size then fail('MALFORMED the revision') end
  local tick = tonumber(meta[5] or '')

  if meta[3] ~= SERVER then
    -- Another process has the data now, perhaps without the last writes: a revision larger than any that the
    -- old one gave (it counts slower than microseconds pass), and for every session its whole ttl again.
    each_session(function(sid) return now + (tonumber(call('HGET', TTLS, sid) or '0') or 0) end)
    commit(math.max(rev + 1, micros), { event('E', SERVER) })
    call('HSET', META, 'schema', SCHEMA, 'run', SERVER, 'tick', now)
  elseif not tick or math.abs(now - tick) > JUMP then
    -- The clock jumped, or nobody was connected: time in which nobody could renew does not count.
    if tick then each_session(function(_, deadline) return deadline + now - tick end) end
    call('HSET', META, 'tick', now)
  elseif now - tick >= 1000 then
    call('HSET', META, 'tick', now)
  end
end

local function require_session(sid)
  local deadline = call('ZSCORE', DEADLINES, sid)
  -- By the deadline and not by whether somebody has reaped it yet.
  if not deadline or tonumber(deadline) <= now then fail('SESSIONLOST') end
end

local function make(created, owner, value)
  return struct.pack('>BI8I8B', 1, created, rev + 1, #owner) .. owner .. value
end
