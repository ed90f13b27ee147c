-- prefix, path to continue behind or '', most paths, most bytes (0: without the records)
-- Returns {revision, whether this is the end, (path, record or false)*}.
local prefix, after, most, bytes = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local out = { revision(), 1 }
local from = after ~= '' and '(' .. after or '[' .. prefix
local page = call('ZRANGEBYLEX', INDEX, from, '(' .. behind(prefix), 'LIMIT', 0, most)
local total = 0
for i, path in ipairs(page) do
  local record = bytes > 0 and call('HGET', RECORDS, path)
  out[#out + 1] = path
  out[#out + 1] = record
  total = total + (record and #record or 0)
  if total > bytes and bytes > 0 and i < #page then
    out[2] = 0
    return out
  end
end
if #page == most then out[2] = 0 end
return out
