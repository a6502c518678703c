package sqldb

import (
	"context"
	"log/slog"
)

// risk is a setting of the server or the role that weakens the service's promises.
type risk struct {
	test   string // an SQL expression: true where the risk exists
	advice string
}

// superuserAdvice is the same for every engine.
const superuserAdvice = "the service is connected as a superuser: give it a role with only the rights it needs"

// Warn logs one line for each risk that the server or the role has. It returns an error
// when the settings cannot be read.
func (db *DB) Warn(ctx context.Context) error {
	for _, r := range db.engine.risks() {
		var exists bool
		if err := db.GetContext(ctx, &exists, "SELECT "+r.test); err != nil {
			return err
		}
		if exists {
			db.log.WarnContext(ctx, "unsafe database setting",
				slog.String("pool", db.settings.Name), slog.String("advice", r.advice))
		}
	}
	return nil
}

func (postgresEngine) risks() []risk {
	return []risk{
		{
			"current_setting('fsync') = 'off'",
			"the database runs with fsync=off: a crash of its machine loses or corrupts data",
		},
		{
			"current_setting('synchronous_commit') = 'off'",
			"the database runs with synchronous_commit=off: a crash loses confirmed changes",
		},
		{
			"current_setting('full_page_writes') = 'off'",
			"the database runs with full_page_writes=off: a crash of its machine can corrupt data",
		},
		{"current_setting('is_superuser') = 'on'", superuserAdvice},
		{
			"current_setting('default_transaction_isolation') <> 'read committed'",
			"autocommit statements run at another isolation level: set default_transaction_isolation to read committed",
		},
		{
			"coalesce(current_setting('client_connection_check_interval', true), '0') = '0'",
			"client_connection_check_interval is 0: a waiting statement of a dead client is applied later; " +
				"use ALTER ROLE ... SET client_connection_check_interval = '200ms'",
		},
		{
			"current_setting('statement_timeout') = '0'",
			"statement_timeout is 0 behind the pooler: " +
				"use ALTER ROLE ... SET statement_timeout so that the server decides first",
		},
	}
}

func (mysqlEngine) risks() []risk {
	return []risk{
		{
			"@@innodb_flush_log_at_trx_commit <> 1",
			"the database runs with another innodb_flush_log_at_trx_commit than 1: a crash loses changes that were confirmed",
		},
		{
			"@@log_bin AND @@sync_binlog <> 1",
			"the database runs with another sync_binlog than 1: after a crash its replicas may lack changes that were confirmed",
		},
		{
			`EXISTS (SELECT 1 FROM information_schema.user_privileges WHERE privilege_type = 'SUPER'
				AND grantee = concat('''', replace(current_user(), '@', '''@'''), ''''))`,
			superuserAdvice,
		},
	}
}
