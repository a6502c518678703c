// Package load drives an HTTP/1.1 server and measures it.
//
// It has two modes. The saturating one (a closed loop) keeps every connection busy and finds the highest throughput; its latencies are
// the queueing that saturation causes. The open-loop one sends at a fixed rate whatever the server does and measures each latency from
// the moment the request was due, not from the moment it was sent, so that a stalled server cannot hide its stall by slowing the
// generator down ("coordinated omission", Gil Tene, HdrHistogram and wrk2).
//
// The generator usually shares its cores with the servers and the database that it measures, so its own CPU is kept small: requests are
// byte slices made beforehand, responses are scanned and not kept, and one exchange costs one write, one park and one read. Every
// connection has at most one request in flight; nothing is pipelined, because hardly any client does that.
package load
