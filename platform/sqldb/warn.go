package sqldb

import (
	"context"
	"log/slog"
)

// serverSettings are the settings that Warn checks.
type serverSettings struct {
	Fsync             string `db:"fsync"`
	SynchronousCommit string `db:"synchronous_commit"`
	FullPageWrites    string `db:"full_page_writes"`
	Superuser         string `db:"is_superuser"`
	Isolation         string `db:"isolation"`
	ClientCheck       string `db:"client_check"`
	StatementTimeout  string `db:"statement_timeout"`
}

const readServerSettings = `SELECT current_setting('fsync') AS fsync,
       current_setting('synchronous_commit') AS synchronous_commit,
       current_setting('full_page_writes') AS full_page_writes,
       current_setting('is_superuser') AS is_superuser,
       current_setting('default_transaction_isolation') AS isolation,
       coalesce(current_setting('client_connection_check_interval', true), '0') AS client_check,
       current_setting('statement_timeout') AS statement_timeout`

// superuserAdvice is the same for every engine.
const superuserAdvice = "the service is connected as a superuser: give it a role with only the rights it needs"

// Warn logs one line for each setting of the server or the role that weakens the
// service's promises. It returns an error when the settings cannot be read.
func (db *DB) Warn(ctx context.Context) error {
	advice, err := db.engine.warnings(ctx, db)
	if err != nil {
		return err
	}
	for _, line := range advice {
		db.log.WarnContext(ctx, "unsafe database setting",
			slog.String("pool", db.settings.Name), slog.String("advice", line))
	}
	return nil
}

func (postgresEngine) warnings(ctx context.Context, db *DB) ([]string, error) {
	var s serverSettings
	err := db.GetContext(ctx, &s, readServerSettings)
	return s.advice(), err
}

// advice returns a sentence for each unsafe setting.
func (s *serverSettings) advice() []string {
	var advice []string
	for _, w := range []struct {
		unsafe bool
		advice string
	}{
		{s.Fsync == "off", "the database runs with fsync=off: a crash of its machine loses or corrupts data"},
		{s.SynchronousCommit == "off", "the database runs with synchronous_commit=off: a crash loses confirmed changes"},
		{s.FullPageWrites == "off", "the database runs with full_page_writes=off: a crash of its machine can corrupt data"},
		{s.Superuser == "on", superuserAdvice},
		{
			s.Isolation != "read committed",
			"autocommit statements run at " + s.Isolation + ": set default_transaction_isolation to read committed",
		},
		{
			s.ClientCheck == "0",
			"client_connection_check_interval is 0: a waiting statement of a dead client is applied later; " +
				"use ALTER ROLE ... SET client_connection_check_interval = '200ms'",
		},
		{
			s.StatementTimeout == "0",
			"statement_timeout is 0 behind the pooler: " +
				"use ALTER ROLE ... SET statement_timeout so that the server decides first",
		},
	} {
		if w.unsafe {
			advice = append(advice, w.advice)
		}
	}
	return advice
}
