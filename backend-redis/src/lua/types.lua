-- The type of each key, to name the one that others made.
local out = {}
for i, key in ipairs(KEYS) do out[i] = call('TYPE', key)['ok'] end
return out
