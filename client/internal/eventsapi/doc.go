// Package eventsapi is generated from the contract of events: its requests, its models.
package eventsapi

//go:generate -command oapi go tool -modfile=../../../tools/go.mod oapi-codegen
//go:generate oapi --config=../client.yaml --package=eventsapi -o=api.gen.go ../../../services/events/api/openapi.yaml
