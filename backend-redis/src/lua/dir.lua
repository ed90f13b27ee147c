-- What comes right behind everything that starts with prefix, which ends in a slash ('0' follows '/').
local function behind(prefix)
  return string.sub(prefix, 1, -2) .. '0'
end

-- The children of a directory, those that are directories with a slash at the end, and whether these are all.
-- Jumps over what is below a child, so that a big subtree costs one step.
local function children(prefix, most)
  local out, from, to = {}, '[' .. prefix, '(' .. behind(prefix)
  for _ = 1, 1 + most / 10 do
    local page = call('ZRANGEBYLEX', INDEX, from, to, 'LIMIT', 0, math.min(100, most + 1))
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
    if #out > most then return out, 0 end
  end
  return out, 0
end
