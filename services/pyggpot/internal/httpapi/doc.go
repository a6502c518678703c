// Package httpapi serves the domain's inbound ports as api/pyggpot/**/*.proto define them, on one port: Connect, which
// includes JSON by plain POST, gRPC and gRPC-Web. It depends only on the ports, never on a repository.
//
// Under the path of a procedure every error is a Connect error, those of the server itself included: see connectError.
package httpapi
