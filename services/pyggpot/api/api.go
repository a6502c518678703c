// Package api holds the service's contract: pyggpot/**/*.proto, and openapi.yaml, which is generated from it. The Go
// messages and clients are generated into client/pyggpot.
package api

import _ "embed" // for the contract

//go:generate go tool -modfile=../../../tools/go.mod buf generate
//go:generate sed -i -E -f openapi.sed openapi.yaml
//go:generate mv ../internal/twirptest/coin/coin.twirp.go ../internal/twirptest/coin/coin.gen.go
//go:generate mv ../internal/twirptest/pot/pot.twirp.go ../internal/twirptest/pot/pot.gen.go
//go:generate sed -i -E -f twirp.sed ../internal/twirptest/coin/coin.gen.go ../internal/twirptest/pot/pot.gen.go

// OpenAPI holds openapi.yaml.
//
//go:embed openapi.yaml
var OpenAPI []byte
