package probe

import (
	"os/signal"

	"github.com/labstack/echo/v4" // want depguard "list 'echo'"

	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/services/counts" // want depguard "list 'lab'"
	"github.com/rowlock/rowlock/services/counts/client"
)

var Used = []any{signal.Ignore, echo.New, dbtest.Postgres, counts.Used, client.Used}
