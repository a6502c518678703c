// Package contracts tests the services' contracts and the script that compares them with an earlier revision, and pins
// oasdiff. It is a separate module, because oasdiff needs a later viper than the one that golangci-lint is tested with.
package contracts
