package app

import (
	_ "os/signal" // want depguard "list 'signals'"

	_ "go.uber.org/goleak" // want depguard "list 'test-only'"

	_ "github.com/rowlock/rowlock/platform/sqldb"
	_ "github.com/rowlock/rowlock/services/counts/internal/httpapi"
	_ "github.com/rowlock/rowlock/services/counts/internal/postgres"
)
