package migrate_test

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/migrate"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// files are migrations that two processes at once cannot both apply.
func files() fstest.MapFS {
	return fstest.MapFS{
		"migrations/00001_create.sql": {Data: []byte("-- rowlock: compatible\n-- +goose Up\n" +
			"CREATE TABLE shop.item (id text PRIMARY KEY, n bigint NOT NULL);\n" +
			"CREATE FUNCTION shop.one() RETURNS int LANGUAGE sql AS 'SELECT 1';\n")},
		"migrations/00002_grow.sql": {Data: []byte("-- rowlock: compatible\n-- +goose Up\n" +
			"ALTER TABLE shop.item ADD COLUMN note text;\nINSERT INTO shop.item VALUES ('seed', 1, 'x');\n")},
		"migrations/00003_index.sql": {Data: []byte("-- rowlock: compatible\n-- +goose NO TRANSACTION\n-- +goose Up\n" +
			"CREATE INDEX CONCURRENTLY IF NOT EXISTS item_note ON shop.item (note);\n")},
	}
}

func source() migrate.Source { return migrate.Source{FS: files(), Schema: "shop"} }

// with adds a compatible migration to the usual ones.
func with(name, sqlText string) migrate.Source {
	return add(source(), name, "-- rowlock: compatible\n"+sqlText)
}

// add returns src with one more file.
func add(src migrate.Source, name, content string) migrate.Source {
	all, _ := src.FS.(fstest.MapFS)
	all = maps.Clone(all)
	all["migrations/"+name] = &fstest.MapFile{Data: []byte(content)}
	src.FS = all
	return src
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func scan(t *testing.T, db *sqlx.DB, query string, dest ...any) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), query).Scan(dest...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// wantComplete checks that each migration was applied exactly once.
func wantComplete(t *testing.T, db *sqlx.DB) {
	t.Helper()
	var rows, versions, seeds int
	scan(t, db, `SELECT count(*), count(DISTINCT version_id) FROM shop.goose_db_version`, &rows, &versions)
	scan(t, db, `SELECT count(*) FROM shop.item`, &seeds)
	if rows != 4 || versions != 4 || seeds != 1 { // goose's version 0 and three files
		t.Fatalf("the history has %d rows of %d versions, the table %d seeds; want 4, 4, 1", rows, versions, seeds)
	}
}

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }

// Ten replicas start at once on an empty database, directly and through PgBouncer in
// transaction mode, where a session lock would stay with a server connection.
func TestReplicasStartTogether(t *testing.T) {
	t.Parallel()
	for round := range 4 {
		direct := dbtest.Empty(t)
		dsn := direct
		if round == 0 {
			dsn = dbtest.PgBouncer(t, direct, 4)
		}
		waittest.Together(t, 10, func(int) error { return migrate.Up(t.Context(), dsn, source(), patience, quiet()) })
		wantComplete(t, dbtest.Dial(t, direct))
	}
}

// The timeouts of a role, or of the server, do not end a migration that takes minutes. transaction_timeout is
// PostgreSQL 17's.
func TestLongMigrations(t *testing.T) {
	t.Parallel()
	const slow = "-- +goose Up\nSELECT pg_sleep(1.5);\n"
	src := add(with("00004_slow.sql", slow),
		"00005_alone.sql", "-- rowlock: compatible\n-- +goose NO TRANSACTION\n"+slow)

	url := dbtest.Empty(t)
	var short string
	scan(t, dbtest.Dial(t, url), `SELECT string_agg('&' || name || '=1000', '') FROM pg_settings
		WHERE name IN ('statement_timeout', 'transaction_timeout')`, &short)
	up(t, url+short, src)

	// A pooler in transaction mode would lose what is set for a session, or give it to another client.
	src.Pooler = sqldb.PoolerTransaction
	err := migrate.Up(t.Context(), dbtest.Empty(t)+"&statement_timeout=1000", src, patience, quiet())
	if err == nil || !strings.Contains(err.Error(), "00005_alone.sql") ||
		!strings.HasSuffix(err.Error(), "a direct connection as MIGRATE_DATABASE_URL has no limit") {
		t.Errorf("behind a pooler: %v", err)
	}
}

// A role that may only read the history.
func TestNothingPendingNeedsNoRights(t *testing.T) {
	t.Parallel()
	url := dbtest.Empty(t)
	up(t, url, source())
	db := dbtest.Dial(t, url)
	role, roleURL := dbtest.Role(t, url)
	err := migrate.Verify(t.Context(), roleURL, source(), quiet())
	const want = "; GRANT the role USAGE on its schema and SELECT ON shop.goose_db_version"
	if err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("Verify without rights: %v", err)
	}
	apptest.Execute(t, db, `GRANT USAGE ON SCHEMA shop TO `+role+`; GRANT SELECT ON shop.goose_db_version TO `+role)
	// Another process's lock is no reason to wait either.
	holder := holdLock(t, db)
	up(t, roleURL, source())
	verify(t, roleURL, source())
	holder.Rollback()
	// Something pending needs them, and says so.
	newer := with("00004_more.sql", "-- +goose Up\nCREATE TABLE shop.more ();\n")
	err = migrate.Up(t.Context(), roleURL, newer, patience, quiet())
	if sqldb.SQLState(err) != "42501" {
		t.Errorf("Up without rights: %v", err)
	}
	// Applied by another role, it is not in the way.
	up(t, url, newer)
	up(t, roleURL, source())
	verify(t, roleURL, source())
}

// The owner of the schemas, one of which is the history's, may not create schemas.
func TestSchemaMadeByAnother(t *testing.T) {
	t.Parallel()
	url := dbtest.Empty(t)
	db := dbtest.Dial(t, url)
	role, roleURL := dbtest.Role(t, url)
	apptest.Execute(t, db, `CREATE SCHEMA shop AUTHORIZATION `+role, `CREATE SCHEMA shop_meta AUTHORIZATION `+role)
	src := source()
	src.HistorySchema = "shop_meta"
	up(t, roleURL, src)
	var n int
	if scan(t, db, `SELECT count(*) FROM shop_meta.goose_db_version`, &n); n != 4 {
		t.Errorf("the history has %d rows, want 4", n)
	}
}

// It is rolled back, named, and applied once
// it is right.
func TestFailedMigrationLeavesNothing(t *testing.T) {
	t.Parallel()
	url := dbtest.Empty(t)
	err := migrate.Up(t.Context(), url,
		with("00004_bad.sql", "-- +goose Up\nCREATE TABLE shop.more ();\nSELECT 1 / 0;\n"), patience, quiet())
	if err == nil || !strings.Contains(err.Error(), "00004_bad.sql") || sqldb.SQLState(err) != "22012" {
		t.Fatalf("got %v", err)
	}
	db := dbtest.Dial(t, url)
	wantComplete(t, db)
	var absent bool
	scan(t, db, `SELECT to_regclass('shop.more') IS NULL`, &absent)
	if !absent {
		t.Error("half a migration stayed")
	}
	good := with("00004_bad.sql", "-- +goose Up\nCREATE TABLE shop.more ();\n")
	up(t, url, good)
}

// ALTER TABLE waits behind an open reader. While it waits, other readers wait behind it, so it must give way within a
// second or so and be tried again.
func TestReaderIsNotBlockedForLong(t *testing.T) {
	t.Parallel()
	url := dbtest.Empty(t)
	up(t, url, source())
	db := dbtest.Dial(t, url)
	reader := apptest.Hold(t, db, `SELECT count(*) FROM shop.item`)
	logs := new(waittest.Log)
	done := make(chan error, 1)
	go func() {
		src := with("00004_more.sql", "-- +goose Up\nALTER TABLE shop.item ADD COLUMN more int;\n")
		done <- migrate.Up(t.Context(), url, src, patience, slog.New(slog.NewTextHandler(logs, nil)))
	}()
	waittest.Eventually(t, "the migration gives way", func() bool { return strings.Contains(logs.String(), "55P03") })
	var n int
	scan(t, db, `SELECT count(*) FROM shop.item`, &n)
	reader.Rollback()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// A session that holds the lock for too long is named, by pid and role, also to a role that may see nothing of it
// but that; the schema is untouched.
func TestHolderOfTheLockIsNamed(t *testing.T) {
	t.Parallel()
	url := dbtest.Empty(t)
	db := dbtest.Dial(t, url+"&application_name=mallory%20%22x%22")
	db.SetMaxOpenConns(1)
	var pid int
	var role string
	scan(t, db, `SELECT pg_backend_pid(), current_user`, &pid, &role)
	_, roleURL := dbtest.Role(t, url)
	holder := holdLock(t, db)
	err := migrate.Up(t.Context(), roleURL, source(), 200*time.Millisecond, quiet())
	want := fmt.Sprintf(`the session with pid %d of the role %q (application_name "mallory \"x\"") held the `+
		`migration lock for all of MIGRATE_TIMEOUT (200ms)`, pid, role)
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want an error with %s", err, want)
	}
	holder.Rollback()
	if err := migrate.Verify(t.Context(), url, source(), quiet()); !errors.Is(err, migrate.ErrPending) {
		t.Errorf("afterwards: %v", err)
	}
}

// The connection that holds the lock is terminated while the
// migration runs, so a second process begins the same migration. The history
// has each version once, and both processes succeed.
func TestLostLock(t *testing.T) {
	t.Parallel()
	url := dbtest.Empty(t)
	up(t, url, source())
	db := dbtest.Dial(t, url)
	src := with("00004_slow.sql",
		"-- +goose Up\nSELECT pg_sleep(3);\nINSERT INTO shop.item VALUES ('slow' || random(), 1);\n")
	errs := make([]error, 2)
	var wg sync.WaitGroup
	running := func(n int) func() bool {
		return func() bool {
			var slow int
			scan(t, db, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
				AND pid <> pg_backend_pid() AND query LIKE 'SELECT pg_sleep(3)%' AND state = 'active'`, &slow)
			return slow == n
		}
	}
	wg.Go(func() { errs[0] = migrate.Up(t.Context(), url, src, patience, quiet()) })
	waittest.Eventually(t, "the first runs", running(1))
	apptest.Execute(t, db, `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
	wg.Go(func() { errs[1] = migrate.Up(t.Context(), url, src, patience, quiet()) })
	waittest.Eventually(t, "the second runs too", running(2))
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	var rows, applied int
	scan(t, db, `SELECT count(*) FROM shop.goose_db_version WHERE version_id = 4`, &rows)
	scan(t, db, `SELECT count(*) FROM shop.item WHERE id LIKE 'slow%'`, &applied)
	if rows != 1 || applied != 1 {
		t.Fatalf("%d rows of history, applied %d times", rows, applied)
	}
}

func TestHash(t *testing.T) {
	t.Parallel()
	renamed, moved := with("00004_one.sql", ""), source()
	moved.HistorySchema = "shop_meta"
	seen := map[string]bool{}
	for _, src := range []migrate.Source{
		source(), {FS: files(), Schema: "shop2"}, moved, renamed, with("00004_two.sql", ""), with("00004_two.sql", "-- x"),
	} {
		hash, err := src.Hash()
		again, againErr := src.Hash()
		if err = errors.Join(err, againErr); err != nil || len(hash) != 64 || again != hash || seen[hash] {
			t.Errorf("the hashes of %+v are %s and %s, %v", src, hash, again, err)
		}
		seen[hash] = true
	}
}

func TestBadSources(t *testing.T) {
	t.Parallel()
	const url = "postgres://app@db/x?sslmode=disable"
	for _, tt := range []struct {
		url  string
		src  migrate.Source
		want string
	}{
		{url, migrate.Source{FS: fstest.MapFS{}, Schema: "shop"}, "no migrations"},
		{url, with("more.sql", ""), "more.sql"},
		{url, add(source(), "00004_more.sql", "-- +goose Up\nSELECT 1;\n"), "00004_more.sql: it needs one line"},
		{url, with("00004_more.sql", "-- rowlock: breaking before 4\n"), "needs one line"},
		{url, add(source(), "00004_more.sql", "-- rowlock: breaking\n"), "needs one line"},
		{url, add(source(), "00004_more.sql", "-- rowlock: breaking before 0\n"), "needs one line"},
		{url, add(source(), "00004_more.sql", "-- rowlock: breaking before 5\n"), "up to 4,"},
		{"postgres://app@db/x", source(), "sslmode"},
		{"mysql://app@db/x", source(), "postgres://"},
	} {
		err := migrate.Up(t.Context(), tt.url, tt.src, patience, quiet())
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Up: %v, want %q", err, tt.want)
		}
	}
}
