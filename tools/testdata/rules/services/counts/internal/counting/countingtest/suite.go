package countingtest

import (
	"database/sql" // want depguard "list 'domain-suite'"
	"testing"

	"github.com/jmoiron/sqlx" // want depguard "list 'domain-suite'"
	"pgregory.net/rapid"

	"github.com/rowlock/rowlock/platform/dbtest" // want depguard "list 'domain-suite'"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

var Used = []any{sql.ErrNoRows, testing.Short, sqlx.NAMED, rapid.Int, dbtest.Postgres, counting.ErrNotFound}
