// Package httpserver is how a Rowlock service is reached: [Server] listens for
// its API, [Admin] for probes and metrics.
//
// # Handlers
//
// A [Handler] knows net/http and nothing else; what it returns as an error is
// answered as problem+json (package problem). The router is echo v4, and this
// package is the only one that imports it, so that v5 is one step away.
//
// # What a request passes
//
//	connection   header within 5 s and 32 KiB, else closed or 431
//	tracing      a span named after the route, only where tracing is on
//	recover      a panic is INTERNAL, logged with its stack
//	request id   the client's X-Request-Id when it is a UUID, else a new one
//	routing      on the escaped path as it was sent: nothing cleaned, nothing redirected
//	in flight    above MAX_IN_FLIGHT: 503 OVERLOADED, before any work
//	body         above MAX_BODY: 413
//	deadline     REQUEST_TIMEOUT, as the deadline of the request's context
//	handler      its error becomes the answer and is logged once
//	metrics, log by route template, never by path
//
// The limit on requests in flight comes after routing, which neither waits nor
// allocates, so that a refusal is counted under its route.
//
// # HTTP/2 and other protocols
//
// [Server.AllowHTTP2] adds HTTP/2 without TLS. A protocol with errors of its own
// (Connect, gRPC) stands on the same routes: an [ErrorWriter] writes what the
// server itself refuses, and [Refuse] tells a handler what to write.
//
// # Shutdown
//
// [Server.Shutdown] first lets answers carry "Connection: close" while it still
// serves for Config.ShutdownDelay, the time that a load balancer needs to look
// elsewhere, and then waits for the requests in flight.
package httpold
