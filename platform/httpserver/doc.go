// Package httpserver configures echo for Rowlock's services: [Server] listens for an API, [Admin] for probes and
// metrics.
//
// A service registers echo handlers on [Server.Echo]. middleware.go lists what a request passes before its handler,
// in order. A handler returns its errors: errors.go turns each into problem+json (package problem), using the
// translations in [Deps.Errors]. c.Bind reads a JSON body as strictly as package strictjson, and c.JSON writes one.
//
// Path parameters are decoded exactly once, so c.Param returns what the client meant: the segment a%2Fb is the
// parameter a/b. A parameter stands for one non-empty segment.
//
// With [Deps.Guard] a request needs a token (package auth), unless its route is public: the contract and its page, and
// the routes that [Deps.Right] names. auth.Caller returns the caller of a request.
//
// # HTTP/2 and other protocols
//
// [Server.AllowHTTP2] adds HTTP/2 without TLS. A protocol with a different form of errors (Connect, gRPC) provides an
// [ErrorWriter] for what the server refuses, and calls [Refuse] to learn what a handler should write.
//
// # Shutdown
//
// [Server.Shutdown] first serves for Config.ShutdownDelay, adding "Connection: close" to answers: the time that a load
// balancer needs to choose another replica. Then it waits for the requests in flight.
package httpserver
