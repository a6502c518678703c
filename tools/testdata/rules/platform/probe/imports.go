package probe

import (
	"log"       // want depguard "list 'banned'"
	"math/rand" // want depguard "list 'banned'"
	"os/signal" // want depguard "list 'signals'"

	"github.com/labstack/echo/v4" // want depguard "list 'echo'"

	"github.com/rowlock/rowlock/lab/probe"       // want depguard "list 'platform'"
	"github.com/rowlock/rowlock/platform/dbtest" // want depguard "list 'test-only'"
	"github.com/rowlock/rowlock/services/counts" // want depguard "list 'platform'"
)

var Used = []any{log.Println, rand.Int, signal.Ignore, echo.New, probe.Used, dbtest.Postgres, counts.Used}
