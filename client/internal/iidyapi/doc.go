// Package iidyapi is generated from the contract of iidy: its requests, its models.
package iidyapi

//go:generate -command oapi go tool -modfile=../../../tools/go.mod oapi-codegen
//go:generate oapi --config=../client.yaml --package=iidyapi -o=api.gen.go ../../../services/iidy/api/openapi.yaml
