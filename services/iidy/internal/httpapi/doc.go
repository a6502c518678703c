// Package httpapi serves the domain's inbound port over HTTP, as text and as JSON,
// as api/openapi.yaml lays it down. It knows the port alone, never a repository.
package httpapi
