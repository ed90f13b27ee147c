-- sid
enter()
local sid = arg()
if not call('ZSCORE', DEADLINES, sid) then return 0 end
drop(sid)
return 1
