// Package api holds the service's contract.
package api

import _ "embed" // for the contract

// OpenAPI holds openapi.yaml.
//
//go:embed openapi.yaml
var OpenAPI []byte
