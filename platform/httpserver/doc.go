// Package httpserver configures echo for Rowlock's services: [Server] listens for an API, [Admin] for probes and
// metrics.
//
// A service registers echo handlers on [Server.Echo]. middleware.go lists what a request passes before its handler,
// in order. A handler returns its errors: errors.go turns each into problem+json (package problem) with the
// translations of [Deps.Errors]. c.Bind reads a JSON body as strictly as package strictjson, and c.JSON writes one.
//
// Path parameters are decoded exactly once, so c.Param returns what the client meant: the segment a%2Fb is the
// parameter a/b. A parameter stands for one segment that is not empty.
//
// With [Deps.Guard] a request needs a token (package auth), unless its route is public: those of the contract and its
// page, and those for which [Deps.Right] says so. auth.Caller returns who sends the request of a context.
//
// # HTTP/2 and other protocols
//
// [Server.AllowHTTP2] adds HTTP/2 without TLS. A protocol with errors of its own (Connect, gRPC) has an [ErrorWriter]
// for what the server refuses, and [Refuse] to learn what a handler should write.
//
// # Shutdown
//
// [Server.Shutdown] first adds "Connection: close" to answers while it still serves for Config.ShutdownDelay, the
// time that a load balancer needs to choose another replica, and then waits for the requests in flight.
package httpserver
