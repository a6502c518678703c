package postgres

import (
	_ "database/sql"
	_ "net/http" // want depguard "list 'store'"

	_ "github.com/jmoiron/sqlx"
	_ "github.com/lib/pq"

	_ "github.com/rowlock/rowlock/lab/probe"           // want depguard "list 'services'"
	_ "github.com/rowlock/rowlock/platform/httpserver" // want depguard "list 'store'"
	_ "github.com/rowlock/rowlock/platform/problem"    // want depguard "list 'store'"
	_ "github.com/rowlock/rowlock/platform/sqldb"
)
