-- The revision, for scripts that only read.
local function revision()
  local meta = call('HMGET', META, 'schema', 'rev')
  check_schema(meta[1])
  return tonumber(meta[2]) or fail('MALFORMED the revision')
end
