// Package paymentsapi is generated from the contract of payments: its requests, its models.
package paymentsapi

//go:generate -command oapi go tool -modfile=../../../tools/go.mod oapi-codegen
//go:generate oapi --config=../client.yaml --package=paymentsapi -o=api.gen.go ../../../services/payments/api/openapi.yaml
