-- revision, most. Returns {revision now, entries of the log behind that revision}.
return { revision(), call('XRANGE', LOG, '(' .. ARGV[1] .. '-0', '+', 'COUNT', ARGV[2]) }
