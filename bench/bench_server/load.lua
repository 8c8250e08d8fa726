-- Asks one request after the other out of a file, a body a line, and tells in the end what came of it, as a line of JSON.
-- wrk --script load.lua URL -- TOKEN FILE
function init(arguments)
  wrk.method = "POST"
  wrk.path = "/v1/recall"
  wrk.headers["Authorization"] = "Bearer " .. arguments[1]
  wrk.headers["Content-Type"] = "application/json"
  requests, place = {}, 0
  for body in io.lines(arguments[2]) do
    requests[#requests + 1] = wrk.format(nil, nil, nil, body)
  end
end

function request()
  place = place % #requests + 1
  return requests[place]
end

function done(summary, latency, _)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.timeout
  io.write(string.format(
    '{"requests": %d, "seconds": %f, "p50": %f, "p95": %f, "p99": %f, "refused": %d, "failed": %d}\n',
    summary.requests, summary.duration / 1e6,
    latency:percentile(50) / 1e3, latency:percentile(95) / 1e3, latency:percentile(99) / 1e3, errors.status, failed
  ))
end
