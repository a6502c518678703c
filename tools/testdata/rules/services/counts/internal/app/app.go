package app

import (
	"os/signal" // want depguard "list 'signals'"

	"pgregory.net/rapid" // want depguard "list 'test-only'"

	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/counts/internal/httpapi"
	"github.com/rowlock/rowlock/services/counts/internal/postgres"
)

var Used = []any{signal.Ignore, rapid.Int, sqldb.DB{}, httpapi.Used{}, postgres.Used{}}
