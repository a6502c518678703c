// Package httpapi serves the domain's service over HTTP, as text and as JSON, as api/openapi.yaml defines it. It
// imports no repository.
//
// The types of JSON bodies are generated from the contract into api.gen.go.
package httpapi

//go:generate -command oapi go tool -modfile=../../../../tools/go.mod oapi-codegen
//go:generate oapi --config=../../api/server.yaml ../../api/openapi.yaml
