package counting

import (
	"context"
	"database/sql" // want depguard "list 'domain'"
	"errors"
	"net/http" // want depguard "list 'domain'"

	"github.com/jmoiron/sqlx"     // want depguard "list 'domain'"
	"github.com/labstack/echo/v4" // want depguard "list 'domain'"

	"github.com/rowlock/rowlock/platform/problem"                  // want depguard "list 'domain'"
	"github.com/rowlock/rowlock/services/counts/internal/postgres" // want depguard "list 'domain'"
)

type Used struct {
	_ context.Context
	_ *sql.DB
	_ *http.Client
	_ *sqlx.Tx
	_ *echo.Echo
	_ *problem.Error
	_ *postgres.Used
}

var ErrNotFound = errors.New("not found")
