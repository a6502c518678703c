// Package httpapi serves the domain's inbound ports over HTTP, as api/openapi.yaml
// defines them. It depends only on the ports, never on a repository.
//
// The types of bodies and the routes are generated from the contract into api.gen.go.
package httpapi

//go:generate -command oapi go tool -modfile=../../../../tools/go.mod oapi-codegen
//go:generate oapi --config=../../api/server.yaml ../../api/openapi.yaml
