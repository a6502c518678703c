package mysql_test

import (
	"crypto/rand"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/migrate"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/services/events/internal/event"
	"github.com/rowlock/rowlock/services/events/internal/event/eventtest"
	"github.com/rowlock/rowlock/services/events/internal/mysql"
)

func TestMain(m *testing.M) { os.Exit(dbtest.MainWithoutLeaks(m)) }

const lockTimeout, statementTimeout = 2 * time.Second, 4 * time.Second

// openPool opens a pool; seen, which may be nil, gets its lock metrics.
func openPool(t *testing.T, dsn string, seen *contention.Metrics) *sqldb.DB {
	t.Helper()
	return apptest.Pool(t, sqldb.Settings{
		URL: dsn, Engines: []sqldb.Engine{sqldb.MySQL}, MaxOpenConns: 8,
		LockTimeout: lockTimeout, StatementTimeout: statementTimeout, Contention: seen,
	}, prometheus.NewRegistry())
}

// openStore opens the store of one replica; seen, which may be nil, gets its lock metrics.
func openStore(t *testing.T, dsn string, seen *contention.Metrics) *mysql.Store {
	t.Helper()
	s := mysql.New(groupcommit.Limits{
		DB: openPool(t, dsn, seen), LockTimeout: lockTimeout, StatementTimeout: statementTimeout, Contention: seen,
	})
	apptest.CloseAtEnd(t, s.Close)
	return s
}

// asRuntime makes the two accounts of REFERENCE.md, migrates as the owner and returns the DSN of the other.
func asRuntime(t *testing.T) string {
	t.Helper()
	u, err := url.Parse(dbtest.EmptyMariaDB(t))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../REFERENCE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(page), "```sql\n")
	block, _, _ = strings.Cut(block, "```")
	// Accounts belong to the server, which other tests use too. A name that begins with a digit may be read as a number.
	database, account := strings.TrimPrefix(u.Path, "/"), "a"+strings.ToLower(rand.Text()[:8])
	block = strings.NewReplacer("events.*", database+".*", "events", account).Replace(block)
	admin := openPool(t, u.String(), nil)
	for statement := range strings.SplitSeq(strings.TrimSpace(block), ";\n") {
		if _, err := admin.Once().ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	log := slog.New(slog.DiscardHandler)
	u.User = url.UserPassword(account+"_owner", "...")
	if err := migrate.Up(t.Context(), u.String(), mysql.Migrations(), time.Minute, log); err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(account, "...")
	if err := migrate.Verify(t.Context(), u.String(), mysql.Migrations(), log); err != nil {
		t.Fatal(err)
	}
	return u.String()
}

// The account of a replica needs no more rights than REFERENCE.md gives it.
func TestStorePassesTheSuite(t *testing.T) {
	t.Parallel()
	eventtest.Exercise(t, func(t *testing.T) (one, other eventtest.Store) {
		t.Helper()
		dsn := asRuntime(t)
		return openStore(t, dsn, nil), openStore(t, dsn, nil)
	})
}

// An account that lacks rights is refused at the start, and not at each event.
func TestRightsAreChecked(t *testing.T) {
	t.Parallel()
	db := openPool(t, asRuntime(t), nil)
	if err := db.CheckRights(t.Context(), mysql.Migrations().Rights); err != nil {
		t.Errorf("the account of REFERENCE.md: %v", err)
	}
	err := db.CheckRights(t.Context(), []string{"SELECT, REFERENCES ON status", "UPDATE ON nothing"})
	const want = "its role lacks rights: GRANT REFERENCES ON status; GRANT UPDATE ON nothing"
	if err == nil || err.Error() != want {
		t.Errorf("more rights than that: %v, want %q", err, want)
	}
}

// TestInvisibleColumnsDoNoHarm: a server or a restore may have added invisible columns and a key (MySQL's my_row_id).
func TestInvisibleColumnsDoNoHarm(t *testing.T) {
	t.Parallel()
	dsn := dbtest.MariaDB(t, mysql.Migrations())
	db := openPool(t, dsn, nil)
	execute(t, db, `ALTER TABLE status ADD COLUMN my_row_id bigint unsigned NOT NULL AUTO_INCREMENT INVISIBLE PRIMARY KEY`)
	execute(t, db, `ALTER TABLE events ADD COLUMN hidden bigint NOT NULL DEFAULT 7 INVISIBLE FIRST`)
	execute(t, db, `ALTER TABLE events_goose_db_version ADD COLUMN hidden bigint NOT NULL DEFAULT 7 INVISIBLE FIRST`)
	if err := migrate.Verify(t.Context(), dsn, mysql.Migrations(), slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	if err := mysql.Check(t.Context(), db); err != nil {
		t.Fatal(err)
	}

	s := openStore(t, dsn, nil)
	id, err := s.Add(t.Context(), event.New{Pending: true})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := s.Work(t.Context(), 1, func(event.ID) string { return "x" }); n != 1 || err != nil {
		t.Errorf("worked %d, %v; want 1", n, err)
	}
	if got, err := s.Find(t.Context(), id); got.Value != "x" || err != nil {
		t.Errorf("found %+v, %v; want the value x", got, err)
	}
	eventtest.WantWhole(t, db, "")
}
