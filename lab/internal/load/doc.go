// Package load drives an HTTP/1.1 server and measures it.
//
// [Run] has two modes. The closed loop keeps every connection busy and finds the highest throughput; its latencies are
// the queueing that saturation causes. The open loop sends at a fixed rate whatever the server does and measures each
// latency from the moment the request was due, not from the moment it was sent, so that a stalled server cannot hide
// its stall by slowing the generator down ("coordinated omission", Gil Tene, HdrHistogram and wrk2).
//
// The generator usually shares its cores with the servers and the database that it measures, so its own CPU is kept
// small: requests are bytes made beforehand, each connection has a goroutine of its own, and fasthttp reads the
// responses. fasthttp's HostClient adds a third to the CPU of a request. Every connection has at most one request in
// flight: hardly any client pipelines.
package load
