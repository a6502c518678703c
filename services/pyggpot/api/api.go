// Package api holds the service's contract: pyggpot/**/*.proto, and openapi.yaml,
// which is generated from it.
package api

import _ "embed" // for the contract

// OpenAPI is openapi.yaml as it stands.
//
//go:embed openapi.yaml
var OpenAPI []byte
