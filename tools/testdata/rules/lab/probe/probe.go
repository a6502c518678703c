package probe

import (
	"os/signal"

	"github.com/labstack/echo/v4" // want depguard "list 'echo'"

	client "github.com/rowlock/rowlock/client/counts"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/services/counts" // want depguard "list 'lab'"
)

var Used = []any{signal.Ignore, echo.New, dbtest.Postgres, counts.Used, client.Used}
