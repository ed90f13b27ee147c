-- Returns the revision, how many sessions were ended, and the ms to the next deadline (-1: there is none).
enter()
local reaped = reap()
local first = call('ZRANGE', DEADLINES, 0, 0, 'WITHSCORES')
local wait = first[2] and math.max(0, tonumber(first[2]) - now) or -1
return { rev, reaped, wait }
