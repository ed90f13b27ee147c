-- The seven keys of a namespace, always declared in this order.
local META, RECORDS, INDEX, DEADLINES, TTLS, OWNED, LOG =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local SCHEMA = '1'
local call = redis.call

local function fail(what)
  error({ err = 'COORD ' .. what })
end

-- A record: format, created, modified, length of owner, owner, value. nil if others wrote something else.
local function parse(record)
  if #record < 18 then return nil end
  local format, created, modified, length = struct.unpack('>BI8I8B', record)
  if format ~= 1 or #record < 18 + length then return nil end
  return created, modified, string.sub(record, 19, 18 + length)
end

local function check_schema(found)
  if found == SCHEMA then return end
  fail(found and 'SCHEMA ' .. found or 'STATELESS')
end
