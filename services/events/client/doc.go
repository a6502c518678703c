// Package client calls the events service from inside the cluster. It is
// generated from api/openapi.yaml and depends on nothing else of Rowlock.
//
// Repeat a call after 503 (surely not applied); after 500 with the code
// OUTCOME_UNKNOWN a repeated POST may add a second event.
package client

//go:generate go tool -modfile=../../../tools/go.mod oapi-codegen --config=../api/client.yaml ../api/openapi.yaml
