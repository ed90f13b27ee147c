-- sid, ttl in ms. Opening the same session again renews it, so that a lost reply can be tried again.
enter()
reap()
local sid, ttl = arg(), arg()
call('HSET', TTLS, sid, ttl)
call('ZADD', DEADLINES, now + tonumber(ttl), sid)
return rev
