package probe

import (
	_ "log"       // want depguard "list 'banned'"
	_ "math/rand" // want depguard "list 'banned'"
	_ "os/signal" // want depguard "list 'signals'"

	_ "github.com/labstack/echo/v4" // want depguard "list 'echo'"

	_ "github.com/rowlock/rowlock/lab/probe"               // want depguard "list 'platform'"
	_ "github.com/rowlock/rowlock/platform/testkit/dbtest" // want depguard "list 'test-only'"
	_ "github.com/rowlock/rowlock/services/counts"         // want depguard "list 'platform'"
)
