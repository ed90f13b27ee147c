-- sid
enter()
reap()
local sid = arg()
require_session(sid)
local ttl = tonumber(call('HGET', TTLS, sid) or '') or fail('SESSIONLOST')
call('ZADD', DEADLINES, now + ttl, sid)
return rev
