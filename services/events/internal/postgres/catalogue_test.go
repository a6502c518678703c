package postgres_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/migrate"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/waittest"
	"github.com/rowlock/rowlock/services/events/internal/event"
	"github.com/rowlock/rowlock/services/events/internal/postgres"
)

// The rules of the source, asked of the catalogue: nothing but tables, and two
// columns and one, in the schema of the two tables.
func TestCatalogueKeepsTheRules(t *testing.T) {
	t.Parallel()
	db := apptest.Open(t, dbtest.Postgres(t, postgres.Migrations()))
	for what, query := range map[string]string{
		"indexes": `SELECT count(*) FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid WHERE c.relnamespace = 'events'::regnamespace`,
		// From version 18 on NOT NULL stands here too; it is allowed.
		"constraints": `SELECT count(*) FROM pg_constraint WHERE connamespace = 'events'::regnamespace AND contype <> 'n'`,
		"triggers": `SELECT count(*) FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
		              WHERE c.relnamespace = 'events'::regnamespace`,
		"rules":      `SELECT count(*) FROM pg_rules WHERE schemaname = 'events'`,
		"routines":   `SELECT count(*) FROM pg_proc WHERE pronamespace = 'events'::regnamespace`,
		"sequences":  `SELECT count(*) FROM information_schema.sequences WHERE sequence_schema = 'events'`,
		"defaults":   `SELECT count(*) FROM information_schema.columns WHERE table_schema = 'events' AND column_default IS NOT NULL`,
		"identities": `SELECT count(*) FROM information_schema.columns WHERE table_schema = 'events' AND is_identity <> 'NO'`,
		"keys": `SELECT count(*) FROM information_schema.table_constraints
		          WHERE table_schema = 'events' AND constraint_type <> 'CHECK'`,
		"relations that are no tables": `SELECT count(*) FROM pg_class
		          WHERE relnamespace = 'events'::regnamespace AND relkind NOT IN ('r', 'p')`,
	} {
		var n int
		if err := db.GetContext(t.Context(), &n, query); err != nil || n != 0 {
			t.Errorf("%s: %d, %v; want none", what, n, err)
		}
	}
	var columns []string
	const query = `SELECT table_name || '.' || column_name || ' ' || data_type || coalesce('(' || character_maximum_length || ')', '')
	                 FROM information_schema.columns
	                WHERE table_schema = 'events' AND table_name IN ('status', 'events') ORDER BY 1`
	if err := db.SelectContext(t.Context(), &columns, query); err != nil {
		t.Fatal(err)
	}
	want := "events.id bigint, events.value character varying(255), status.id bigint"
	if got := strings.Join(columns, ", "); got != want {
		t.Errorf("the columns are %s, want %s", got, want)
	}
}

// What a claim, a lookup and a count read, asked of the planner.
func TestPlansReadFewPartitions(t *testing.T) {
	t.Parallel()
	db := apptest.Open(t, dbtest.Postgres(t, postgres.Migrations()))
	for query, want := range map[string]int{
		`SELECT value FROM events.events WHERE id = 77 LIMIT 1`:                                                                         2,
		`SELECT id, ctid::text AS place FROM events.events WHERE value IS NULL AND ctid >= '(0,0)'::tid LIMIT 9 FOR UPDATE SKIP LOCKED`: 1,
		`DELETE FROM events.events WHERE value IS NULL AND ctid = ANY ('{"(0,1)"}'::tid[]) AND id = ANY ('{1}'::bigint[])`:              1,
		`SELECT id FROM events.status`: 1,
	} {
		var plan []string
		if err := db.SelectContext(t.Context(), &plan, `EXPLAIN (COSTS OFF) `+query); err != nil {
			t.Fatal(err)
		}
		text := strings.Join(plan, "\n")
		if got := strings.Count(text, "Scan on "); got != want {
			t.Errorf("%s reads %d tables, want %d:\n%s", query, got, want, text)
		}
	}
}

// Ten processes migrate an empty database at once: one row of status, and a
// store that works.
func TestTenMigrateAtOnce(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Empty(t)
	if err := waittest.Together(10, func(int) error {
		return migrate.Up(t.Context(), dsn, postgres.Migrations(), slog.New(slog.DiscardHandler))
	}); err != nil {
		t.Fatal(err)
	}
	if err := postgres.Check(t.Context(), openPool(t, dsn, sqldb.PoolerNone)); err != nil {
		t.Error(err)
	}
	if id, err := openStore(t, dsn, sqldb.PoolerNone).Add(t.Context(), event.New{Value: "x"}); err != nil || id != 1 {
		t.Errorf("id %d, %v", id, err)
	}
}

// Without exactly one row no id is given, though somebody should have damaged the
// table while the service runs.
func TestStatusOfOneRow(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]string{
		"none": `DELETE FROM events.status`, "two": `INSERT INTO events.status (id) VALUES (0)`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := dbtest.Postgres(t, postgres.Migrations())
			s, db := openStore(t, dsn, sqldb.PoolerNone), apptest.Open(t, dsn)
			apptest.Execute(t, db, damage)
			if err := postgres.Check(t.Context(), openPool(t, dsn, sqldb.PoolerNone)); !errors.Is(err, event.ErrStatus) {
				t.Errorf("check: %v", err)
			}
			if id, err := s.Add(t.Context(), event.New{Value: "x"}); !errors.Is(err, event.ErrStatus) {
				t.Errorf("add: %d, %v", id, err)
			}
			var n int
			if err := db.GetContext(t.Context(), &n, `SELECT count(*) FROM events.events`); err != nil || n != 0 {
				t.Errorf("%d events, %v", n, err)
			}
		})
	}
}

// A stranger holds the row of status: for a moment, and for longer than anybody waits.
func TestHeldStatusRow(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	s, db := openStore(t, dsn, sqldb.PoolerNone), apptest.Open(t, dsn)
	for _, long := range []bool{false, true} {
		tx, err := db.BeginTxx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.ExecContext(t.Context(), `SELECT FROM events.status FOR UPDATE`); err != nil {
			t.Fatal(err)
		}
		answers := make(chan error, 20)
		for range cap(answers) {
			go func() {
				_, err := s.Add(t.Context(), event.New{Value: "x"})
				answers <- err
			}()
		}
		waittest.Eventually(t, "a group waits", func() bool {
			var n int
			err := db.GetContext(t.Context(), &n, `SELECT count(*) FROM pg_stat_activity
			  WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0`)
			return err == nil && n > 0
		})
		if _, err := s.Count(t.Context()); err != nil {
			t.Errorf("a read beside it: %v", err)
		}
		if !long {
			if err := tx.Rollback(); err != nil {
				t.Fatal(err)
			}
		}
		for range cap(answers) {
			if err := <-answers; long != errors.Is(err, coalesce.ErrLocked) || !long && err != nil {
				t.Errorf("held long: %t; got %v", long, err)
			}
		}
		_ = tx.Rollback()
	}
	if n, err := s.Count(t.Context()); err != nil || n != 20 {
		t.Errorf("count %d, %v; want the 20 that were acknowledged", n, err)
	}
}
