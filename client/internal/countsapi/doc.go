// Package countsapi is generated from the contract of counts: its requests, its models.
package countsapi

//go:generate -command oapi go tool -modfile=../../../tools/go.mod oapi-codegen
//go:generate oapi --config=../client.yaml --package=countsapi -o=api.gen.go ../../../services/counts/api/openapi.yaml
