package probe_test

import (
	_ "testing"

	_ "github.com/labstack/echo/v4" // want depguard "list 'echo'"

	_ "github.com/rowlock/rowlock/platform/testkit/dbtest"
)
