-- One put without conditions, which most changes are. Only what it needs is defined and declared: the functions and
-- keys of the others take about as long to set up as all of this. It judges no deadline, so it needs no clock.
-- The id of the server's process, how many entries the log keeps, path, value.
-- Returns the revision; or 0 with nothing done where anything is unusual, for commit.lua to judge.
local META, RECORDS, INDEX, LOG = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local path, value, call = ARGV[3], ARGV[4], redis.call

local meta = call('HMGET', META, 'schema', 'run', 'rev', 'size')
local before, size = tonumber(meta[3] or ''), tonumber(meta[4] or '')
if meta[1] ~= '1' or meta[2] ~= ARGV[1] or not before or not size then return 0 end

local rev, record = before + 1
local old = call('HGET', RECORDS, path)
if old then
  local length = string.byte(old, 18)
  if not length or string.byte(old) ~= 1 or #old < 18 + length then return 0 end
  -- All but the revision of the change and the value stay, the owner too.
  record = string.sub(old, 1, 9) .. struct.pack('>I8', rev) .. string.sub(old, 18, 18 + length) .. value
else
  record = struct.pack('>BI8I8B', 1, rev, rev, 0) .. value
  -- A key of a wrong type must show before the first write.
  call('ZCARD', INDEX)
end
local change = struct.pack('>BI4I4', 80, #path, #record) .. path .. record
size = size + #change
call('XADD', LOG, 'MAXLEN', '~', ARGV[2], rev, 'p', before, 's', size, 'o', change)
call('HSET', META, 'rev', rev, 'size', size)
call('HSET', RECORDS, path, record)
if not old then call('ZADD', INDEX, 0, path) end
return rev
