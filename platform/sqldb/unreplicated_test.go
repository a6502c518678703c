package sqldb_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// absentStandby starts a server whose standby is away, with counters. Commits of admin do not wait for the standby.
func absentStandby(t *testing.T) (url string, admin *sqldb.DB) {
	t.Helper()
	url = dbtest.Server(t, map[string]string{
		"synchronous_standby_names": "absent", "client_min_messages": "error", // which pools override
	}).URL("postgres")
	unwaited := url + "&synchronous_commit=local"
	if got := warnings(t, sqldb.Settings{URL: unwaited}); !strings.Contains(got, "synchronous_commit=local") {
		t.Errorf("no warning of synchronous_commit=local: %q", got)
	}
	if got := warnings(t, sqldb.Settings{URL: url}); strings.Contains(got, "synchronous_commit=local") {
		t.Errorf("a warning although commits wait: %q", got)
	}
	admin = open(t, unwaited, func(s *sqldb.Settings) { s.ApplicationName = "admin" })
	execute(t, admin, `CREATE TABLE counter (id text PRIMARY KEY, n bigint NOT NULL)`)
	return url, admin
}

// unreplicated is a call that adds the counter id, and how the wait of its commit ends.
type unreplicated struct {
	call   func(ctx context.Context, db *sqldb.DB, id string) error
	end    string // a function of the server; "" is the caller's deadline
	reason sqldb.Reason
}

func unreplicatedCalls() map[string]unreplicated {
	const (
		add, cancel = `INSERT INTO counter VALUES ($1, 1)`, "pg_cancel_backend"
		upsert      = add + ` ON CONFLICT (id) DO UPDATE SET n = excluded.n RETURNING true`
	)
	once := func(ctx context.Context, db *sqldb.DB, id string) error { return execOnce(ctx, db, add, id) }
	query := func(statement string) func(context.Context, *sqldb.DB, string) error {
		return func(ctx context.Context, db *sqldb.DB, id string) error {
			return db.Once().GetContext(ctx, new(bool), statement, id)
		}
	}
	lookUp := func(ctx context.Context, db *sqldb.DB, id string) error {
		return db.Repeatable().GetContext(ctx, new(bool), upsert, id)
	}
	inTx := func(ctx context.Context, db *sqldb.DB, id string) error { return execTx(ctx, db, add, id) }
	return map[string]unreplicated{
		"Once, deadline": {once, "", sqldb.Timeout},
		"Once":           {once, cancel, sqldb.Timeout},
		"Once, a row":    {query(add + ` RETURNING true`), cancel, sqldb.Timeout},
		"Once, no row": {
			query(`WITH added AS (` + add + ` RETURNING n) SELECT true FROM added WHERE n > 1`), cancel, sqldb.Timeout,
		},
		"a look-up":  {lookUp, cancel, sqldb.Timeout},
		"InTx":       {inTx, cancel, sqldb.Timeout},
		"InTx, lost": {inTx, "pg_terminate_backend", sqldb.Connection},
	}
}

// TestUnreplicatedChanges: the server says success when the wait for its synchronous standby was ended. Everything that
// looks for the change on that server finds it, and the standby may lack it: the outcome is unknown.
func TestUnreplicatedChanges(t *testing.T) {
	t.Parallel()
	url, admin := absentStandby(t)
	for id, c := range unreplicatedCalls() {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			db := open(t, url, quick, func(s *sqldb.Settings) { s.ApplicationName = id })
			within := 3 * time.Second
			if c.end == "" {
				within = time.Second // less than the wait for an answer, and enough to send the statement
			}
			ctx, stop := context.WithTimeout(context.WithoutCancel(t.Context()), within)
			defer stop()
			done := make(chan error, 1)
			go func() { done <- c.call(ctx, db, id) }()
			if c.end != "" {
				waittest.Eventually(t, "the call waits for the standby", func() bool {
					var n int
					err := admin.GetContext(t.Context(), &n, `SELECT count(`+c.end+`(pid)) FROM pg_stat_activity
						WHERE application_name = $1 AND wait_event = 'SyncRep'`, id)
					return err == nil && n == 1
				})
			}
			wantError(t, <-done, sqldb.Unknown, c.reason)
			wantValue(t, admin, id, 1) // to a look-up it would be committed
		})
	}
}
