-- wrk's script: every request is the next line of the file BODIES, a POST to /translate. Ends with one line of JSON.

local bodies, place, thread_number = {}, 0, 0

function setup(thread)
  thread:set("number", thread_number)
  thread_number = thread_number + 1
end

function init(args)
  for line in io.lines(args[1]) do
    table.insert(bodies, line)
  end
  place = number * 997 % #bodies
end

function request()
  place = place % #bodies + 1
  return wrk.format("POST", "/translate", { ["Content-Type"] = "application/json" }, bodies[place])
end

function done(summary, latency, requests)
  local failed = summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout
  io.write(string.format(
    '{"requests": %d, "failed": %d, "seconds": %f, "p50": %f, "p99": %f}\n',
    summary.requests, failed + summary.errors.status, summary.duration / 1e6,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3))
end
