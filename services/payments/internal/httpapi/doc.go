// Package httpapi serves the domain's inbound ports over HTTP, as api/openapi.yaml
// specifies. Models and routes are generated from it. It depends on the ports alone,
// never on a repository.
package httpapi

//go:generate go tool -modfile=../../../../tools/go.mod oapi-codegen --config=../../api/server.yaml ../../api/openapi.yaml
