package counting

import (
	_ "context"
	_ "database/sql" // want depguard "list 'domain'"
	_ "errors"
	_ "net/http" // want depguard "list 'domain'"

	_ "github.com/jmoiron/sqlx"     // want depguard "list 'domain'"
	_ "github.com/labstack/echo/v4" // want depguard "list 'domain'"

	_ "github.com/rowlock/rowlock/platform/problem"                  // want depguard "list 'domain'"
	_ "github.com/rowlock/rowlock/services/counts/internal/postgres" // want depguard "list 'domain'"
)
