package countingtest

import (
	_ "database/sql" // want depguard "list 'domain-suite'"
	_ "testing"

	_ "github.com/jmoiron/sqlx" // want depguard "list 'domain-suite'"

	_ "github.com/rowlock/rowlock/platform/testkit/dbtest" // want depguard "list 'domain-suite'"
	_ "github.com/rowlock/rowlock/services/counts/internal/counting"
)
