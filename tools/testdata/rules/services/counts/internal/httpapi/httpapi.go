package httpapi

import (
	_ "database/sql" // want depguard "list 'httpapi'"
	_ "net/http"

	_ "github.com/jmoiron/sqlx" // want depguard "list 'httpapi'"
	_ "github.com/labstack/echo/v4"
	_ "github.com/lib/pq" // want depguard "list 'httpapi'"

	_ "github.com/rowlock/rowlock/platform/httpserver"
	_ "github.com/rowlock/rowlock/platform/problem"
	_ "github.com/rowlock/rowlock/platform/sqldb" // want depguard "list 'httpapi'"
	_ "github.com/rowlock/rowlock/services/counts/internal/counting"
	_ "github.com/rowlock/rowlock/services/counts/internal/postgres" // TestAdaptersDoNotImportEachOther
)
