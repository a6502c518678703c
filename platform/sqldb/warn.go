package sqldb

import (
	"context"
	"fmt"
	"log/slog"
)

// risk is a setting of the server or the role that weakens the service's promises.
type risk struct {
	test   string // an SQL expression: true where the risk exists
	advice string
}

// superuserAdvice is the same for every engine.
const superuserAdvice = "the service is connected as a superuser: give it a role with only the rights it needs"

// Warn logs one line for each risk that the server or the role has, and one when the
// server has fewer connections left than the pool may open. It returns an error when the
// settings cannot be read.
func (db *DB) Warn(ctx context.Context) error {
	risks, query := db.engine.warnings()
	if db.settings.Cluster == ClusterCitus {
		risks = append(risks, citusRisk)
	}
	for _, r := range risks {
		var exists bool
		if err := db.GetContext(ctx, &exists, "SELECT "+r.test); err != nil {
			return err
		}
		if exists {
			db.log.WarnContext(ctx, "unsafe database setting",
				slog.String("pool", db.settings.Name), slog.String("advice", r.advice))
		}
	}

	if db.settings.Pooler != PoolerNone {
		return nil // the pool's connections are not the server's
	}
	var c capacity
	if err := db.GetContext(ctx, &c, query); err != nil {
		return err
	}
	if size := db.settings.MaxOpenConns; size > c.Granted-c.Used {
		db.log.WarnContext(ctx, "the pool does not fit the server", slog.String("pool", db.settings.Name),
			slog.String("advice", fmt.Sprintf("the pool may open %d connections, and of the %d that max_connections "+
				"leaves to it and to others %d are in use: use smaller pools or fewer replicas, or raise max_connections",
				size, c.Granted, c.Used)))
	}
	return nil
}

// horizonSQL needs no right. The session that sends it has a snapshot too, which knows the oldest transaction that is
// open or prepared. A standby's snapshot belongs to a walsender, which has no database, or to a slot.
const horizonSQL = `
SELECT max(age(h.xmin))
  FROM (SELECT backend_xmin FROM pg_stat_activity
         WHERE coalesce(datname, current_database()) = current_database()
           AND pid NOT IN (SELECT pid FROM pg_stat_progress_vacuum) -- which others may pass
         UNION ALL
        SELECT xmin FROM pg_replication_slots) AS h (xmin)`

// Horizon returns how many transactions the server has begun since the oldest one that is open or prepared, or that a
// snapshot or a replication slot needs: row versions since then cannot be vacuumed. It returns 0 on MySQL.
func (db *DB) Horizon(ctx context.Context) (transactions float64, err error) {
	if db.kind == PostgreSQL {
		err = db.GetContext(ctx, &transactions, horizonSQL)
	}
	return transactions, err
}

// capacity holds a server's connections.
type capacity struct {
	Granted int `db:"granted"` // to roles that are no superusers
	Used    int `db:"used"`    // by other sessions
}

// warnings counts the sessions that have both a database and a role, because those of the
// server's own processes take none of max_connections. Every role may see these columns.
func (postgresEngine) warnings() (risks []risk, capacity string) {
	capacity = `SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
			- coalesce(current_setting('reserved_connections', true)::int, 0) AS granted,
		(SELECT count(*) FROM pg_stat_activity
			WHERE datid IS NOT NULL AND usesysid IS NOT NULL AND pid <> pg_backend_pid()) AS used`
	risks = []risk{
		{
			"current_setting('fsync') = 'off'",
			"the database runs with fsync=off: a crash of its machine loses or corrupts data",
		},
		{
			"current_setting('synchronous_commit') = 'off'",
			"the database runs with synchronous_commit=off: a crash loses confirmed changes",
		},
		{
			"current_setting('synchronous_commit') = 'local' AND current_setting('synchronous_standby_names') <> ''",
			"the database runs with synchronous_commit=local and does not wait for the standbys of " +
				"synchronous_standby_names: a failover loses confirmed changes",
		},
		{
			"current_setting('client_min_messages') = 'error'",
			"client_min_messages is error behind the pooler: a change that the synchronous standby may lack " +
				"is taken for a confirmed one; use ALTER ROLE ... SET client_min_messages = 'warning'",
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
	return risks, capacity
}

// citusRisk is that a worker's waits for locks end with the statement alone: a worker knows the role's
// lock_timeout, and not the session's.
var citusRisk = risk{
	`NOT EXISTS (SELECT FROM pg_db_role_setting s
				JOIN pg_roles r ON s.setrole IN (0, r.oid) AND r.rolname = current_user
				CROSS JOIN unnest(s.setconfig) AS c (setting)
			WHERE starts_with(c.setting, 'lock_timeout='))`,
	"the role has no lock_timeout, and the session's does not reach Citus' workers, where a statement may wait for a " +
		"row until its statement_timeout; use ALTER ROLE ... SET lock_timeout on the coordinator",
}

// warnings counts no sessions: without the right PROCESS a role sees only its own.
func (mysqlEngine) warnings() (risks []risk, capacity string) {
	risks = []risk{
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
	return risks, "SELECT @@max_connections AS granted, 0 AS used"
}
