// Package client calls the iidy service from inside the cluster. It is generated
// from api/openapi.yaml and depends on nothing else of Rowlock.
//
// Repeat a call after 503 (surely not applied). Adds and deletes may be repeated in
// any case; after 500 with the code OUTCOME_UNKNOWN a repeated increment may count
// twice. The type of the body chooses the format, and so does the header Accept.
package client

//go:generate go tool -modfile=../../../tools/go.mod oapi-codegen --config=../api/client.yaml ../api/openapi.yaml
