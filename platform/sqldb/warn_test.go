package sqldb_test

import (
	"strings"
	"testing"

	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

func TestWarn(t *testing.T) {
	t.Parallel()
	url, maria := counterDatabase(t), dbtest.EmptyMariaDB(t)
	_, plain := dbtest.Role(t, url)
	role, bounded := dbtest.Role(t, url)
	execute(t, open(t, url), "ALTER ROLE "+role+" SET lock_timeout = '5s'")
	const foreign, ignored = "&keepalives=1&gssencmode=disable&channel_binding=prefer&pgbouncer=true",
		`parameters="channel_binding, gssencmode, keepalives, pgbouncer"`
	const noLockTimeout, tooMany = "the role has no lock_timeout", "may open 100000 connections"

	for name, c := range map[string]struct {
		settings     sqldb.Settings
		want, absent []string
	}{
		"everything": {
			sqldb.Settings{
				URL: url + "&synchronous_commit=off&default_transaction_isolation=serializable", MaxOpenConns: 100_000,
			},
			[]string{"fsync=off", "full_page_writes=off", "synchronous_commit=off", "superuser", "another isolation", tooMany},
			nil,
		},
		"a pooler": {
			sqldb.Settings{
				URL: plain + "&binary_parameters=yes" + foreign, MaxOpenConns: 100_000, Pooler: sqldb.PoolerTransaction,
			},
			[]string{"client_connection_check_interval is 0", "statement_timeout is 0", ignored},
			[]string{"superuser", tooMany},
		},
		"Citus": {
			sqldb.Settings{URL: plain + foreign, Cluster: sqldb.ClusterCitus},
			[]string{noLockTimeout, ignored},
			[]string{"may open"},
		},
		"Citus, a role with a lock_timeout": {
			sqldb.Settings{URL: bounded, Cluster: sqldb.ClusterCitus}, nil, []string{noLockTimeout},
		},
		"MariaDB": {
			sqldb.Settings{URL: maria, MaxOpenConns: 100_000},
			[]string{"another innodb_flush_log_at_trx_commit than 1", "superuser", tooMany},
			nil,
		},
	} {
		got := warnings(t, c.settings)
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: no %q in %q", name, want, got)
			}
		}
		for _, absent := range c.absent {
			if strings.Contains(got, absent) {
				t.Errorf("%s: %q in %q", name, absent, got)
			}
		}
	}
	if err := open(t, "postgres://app@127.0.0.1:1/x?sslmode=disable").Warn(t.Context()); err == nil {
		t.Error("an unreachable database gives no error")
	}
}

// The horizon stands still while a session of another role keeps a snapshot. A role without rights sees that.
func TestHorizon(t *testing.T) {
	t.Parallel()
	url := counterDatabase(t)
	_, plain := dbtest.Role(t, url)
	db, admin := open(t, plain), dbtest.Dial(t, url)
	horizon := func() float64 {
		n, err := db.Horizon(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return n
	}

	snapshot := apptest.Hold(t, admin, `DECLARE c CURSOR FOR SELECT id FROM counter`)
	const changes = `DO $$ BEGIN FOR i IN 1..1000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$`
	if _, err := admin.ExecContext(t.Context(), changes); err != nil { //nolint:forbidigo // of another client
		t.Fatal(err)
	}
	if n := horizon(); n < 1000 {
		t.Errorf("%g transactions have begun since, want 1000 at least", n)
	}
	snapshot.Rollback()
	waittest.Eventually(t, "the horizon advances", func() bool { return horizon() < 1000 })
}
