-- The seven keys of a namespace, always declared in this order.
local META, RECORDS, INDEX, DEADLINES, TTLS, OWNED, LOG =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local SCHEMA = '1'
local call = redis.call

local function fail(what)
  error({ err = 'COORD ' .. what })
end

-- Exact for whole numbers below 2^53, which revisions are until the year 2255.
local function text(number)
  return string.format('%.0f', number)
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

-- The revision, for scripts that only read.
local function revision()
  local meta = call('HMGET', META, 'schema', 'rev')
  check_schema(meta[1])
  return tonumber(meta[2]) or fail('MALFORMED the revision')
end

-- What comes right behind everything that starts with prefix, which ends in a slash ('0' follows '/').
local function behind(prefix)
  return string.sub(prefix, 1, -2) .. '0'
end

-- The children of a directory, those that are directories with a slash at the end, and whether these are all.
-- Jumps over what is below a child, so that a big subtree costs one step.
local function children(prefix, most)
  local out, from, to = {}, '[' .. prefix, '(' .. behind(prefix)
  for _ = 1, 1 + most / 10 do
    local page = call('ZRANGEBYLEX', INDEX, from, to, 'LIMIT', 0, 100)
    for _, path in ipairs(page) do
      local slash = string.find(path, '/', #prefix + 1, true)
      local child = slash and string.sub(path, 1, slash) or path
      out[#out + 1] = child
      if slash then
        from = '[' .. behind(child)
        break
      end
      from = '(' .. path
    end
    if #page == 0 then return out, 1 end
    if #out >= most then return out, 0 end
  end
  return out, 0
end
