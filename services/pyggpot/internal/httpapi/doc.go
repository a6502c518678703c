// Package httpapi serves the domain's inbound ports as api/pyggpot/**/*.proto lay
// them down: Connect, which is JSON by plain POST, gRPC and gRPC-Web, on one
// port. It knows the ports alone, never a repository.
//
// Every error is a Connect error, those of the server itself included, wherever a
// path is one of a procedure: see connectError.
package httpapi
