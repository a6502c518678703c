package probe

import (
	_ "os/signal"

	_ "github.com/labstack/echo/v4" // want depguard "list 'echo'"

	_ "github.com/rowlock/rowlock/client/counts"
	_ "github.com/rowlock/rowlock/platform/testkit/dbtest"
	_ "github.com/rowlock/rowlock/services/counts" // want depguard "list 'lab'"
)
