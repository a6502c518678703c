package httpapi

import (
	"database/sql" // want depguard "list 'httpapi'"
	"net/http"

	"github.com/jmoiron/sqlx" // want depguard "list 'httpapi'"
	"github.com/labstack/echo/v4"
	"github.com/lib/pq" // want depguard "list 'httpapi'"

	"github.com/rowlock/rowlock/platform/httpserver"
	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/platform/sqldb" // want depguard "list 'httpapi'"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
	"github.com/rowlock/rowlock/services/counts/internal/postgres" // TestAdaptersDoNotImportEachOther
)

type Used struct {
	_ *sql.Tx
	_ *http.Client
	_ *sqlx.DB
	_ *echo.Echo
	_ *pq.Error
	_ *httpserver.Server
	_ *problem.Error
	_ *sqldb.DB
	_ *counting.Used
	_ *postgres.Used
}
