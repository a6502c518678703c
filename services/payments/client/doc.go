// Package client calls the payments service from inside the cluster. It is
// generated from api/openapi.yaml and depends on nothing else of Rowlock.
//
// Make up an idempotency key for each payment and keep it with the order. Whatever
// goes wrong (no answer, 409 PAYMENT_PROCESSING, 500, 502, 503, 504), repeat with
// the same key and the same body: the ride is charged once.
package client

//go:generate go tool -modfile=../../../tools/go.mod oapi-codegen --config=../api/client.yaml ../api/openapi.yaml
