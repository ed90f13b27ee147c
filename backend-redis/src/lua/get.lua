-- path. Returns {revision, record or false}.
return { revision(), call('HGET', RECORDS, ARGV[1]) }
