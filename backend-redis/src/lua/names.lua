-- prefix, most. Returns {revision, whether the names are all, names}.
local rev = revision()
local names, all = children(ARGV[1], tonumber(ARGV[2]))
return { rev, all, names }
