// Command payments runs a replica of the payments service; see ../../README.md.
package main

import (
	"os"

	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/lifecycle"
	"github.com/rowlock/rowlock/services/payments/internal/app"
)

func main() {
	os.Exit(lifecycle.Main(app.Service().Program(), os.Args[1:], config.Environ(), os.Stdout, os.Stderr))
}
