// Package countsapi is generated from the contract of counts: its requests, its models.
package countsapi

//go:generate go tool -modfile=../../../tools/go.mod oapi-codegen --config=../client.yaml --package=countsapi -o=api.gen.go ../../../services/counts/api/openapi.yaml
