// Package httpapi serves the domain's inbound ports over HTTP, as
// api/openapi.yaml lays them down. It knows the ports alone, never a repository.
package httpapi
