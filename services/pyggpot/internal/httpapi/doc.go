// Package httpapi serves the domain's inbound ports as api/pyggpot/**/*.proto define them, on one port: Connect (which
// includes JSON by plain POST), gRPC, gRPC-Web and, under /twirp, Twirp. It depends only on the domain's ports, never
// on a repository.
//
// Under the path of a procedure every error, even one of the server itself, is a Connect error, or under /twirp a Twirp
// error: see connectError and writeTwirp.
package httpapi
