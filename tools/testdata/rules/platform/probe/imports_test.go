package probe_test

import (
	"testing"

	"github.com/labstack/echo/v4" // want depguard "list 'echo'"

	"github.com/rowlock/rowlock/platform/dbtest"
)

func TestProbe(t *testing.T) {
	t.Log(echo.New(), dbtest.Postgres(t))
}
