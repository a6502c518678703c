// Package api holds the service's contract: pyggpot/**/*.proto, and openapi.yaml,
// which is generated from it. The messages and clients in Go are generated into
// client/pyggpot.
package api

import _ "embed" // for the contract

//go:generate go tool -modfile=../../../tools/go.mod buf generate

// OpenAPI is openapi.yaml as it stands.
//
//go:embed openapi.yaml
var OpenAPI []byte
