-- sid. Returns the revision that ended it; 0 if it was over.
enter()
local sid = arg()
if not call('ZSCORE', DEADLINES, sid) then return 0 end
drop(sid)
return rev
