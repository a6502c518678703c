package postgres

import (
	"database/sql"
	"net/http" // want depguard "list 'store'"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/rowlock/rowlock/lab/probe"           // want depguard "list 'services'"
	"github.com/rowlock/rowlock/platform/httpserver" // want depguard "list 'store'"
	"github.com/rowlock/rowlock/platform/problem"    // want depguard "list 'store'"
	"github.com/rowlock/rowlock/platform/sqldb"
)

type Used struct {
	_ *sql.Tx
	_ *http.Client
	_ *sqlx.Conn
	_ *pq.Error
	_ *httpserver.Server
	_ *problem.Error
	_ *sqldb.DB
}

var _ = probe.Used
