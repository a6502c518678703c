package postgres_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/services/events/internal/event"
	"github.com/rowlock/rowlock/services/events/internal/postgres"
)

// TestCatalogueKeepsTheRules reads the source's rules from the catalogue: only tables, and only their columns.
func TestCatalogueKeepsTheRules(t *testing.T) {
	t.Parallel()
	db := dbtest.Dial(t, dbtest.Postgres(t, postgres.Migrations()))
	for what, query := range map[string]string{
		"indexes": `SELECT count(*) FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
		              WHERE c.relnamespace = 'events'::regnamespace`,
		// From version 18 on this includes NOT NULL, which is allowed.
		"constraints": `SELECT count(*) FROM pg_constraint WHERE connamespace = 'events'::regnamespace AND contype <> 'n'`,
		"triggers": `SELECT count(*) FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
		              WHERE c.relnamespace = 'events'::regnamespace`,
		"rules":     `SELECT count(*) FROM pg_rules WHERE schemaname = 'events'`,
		"routines":  `SELECT count(*) FROM pg_proc WHERE pronamespace = 'events'::regnamespace`,
		"sequences": `SELECT count(*) FROM information_schema.sequences WHERE sequence_schema = 'events'`,
		"defaults": `SELECT count(*) FROM information_schema.columns
		              WHERE table_schema = 'events' AND (column_default IS NOT NULL OR is_identity <> 'NO')`,
		"keys": `SELECT count(*) FROM information_schema.table_constraints
		          WHERE table_schema = 'events' AND constraint_type <> 'CHECK'`,
		"relations that are no tables": `SELECT count(*) FROM pg_class
		          WHERE relnamespace = 'events'::regnamespace AND relkind NOT IN ('r', 'p')`,
	} {
		if n := apptest.One[int](t, db, query); n != 0 {
			t.Errorf("%s: %d, want none", what, n)
		}
	}
	var columns []string
	const query = `SELECT table_name || '.' || column_name || ' ' || data_type ||
	                      coalesce('(' || character_maximum_length || ')', '')
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

// TestPlansReadFewPartitions: a claim, a finish, a lookup and a count read only the partitions that they need.
func TestPlansReadFewPartitions(t *testing.T) {
	t.Parallel()
	db := dbtest.Dial(t, dbtest.Postgres(t, postgres.Migrations()))
	for query, want := range map[string]int{
		`SELECT value FROM events.events WHERE id = 77 LIMIT 1`: 2,
		`SELECT id, ctid::text AS place FROM events.events
		  WHERE value IS NULL AND ctid >= '(0,0)'::tid LIMIT 9 FOR UPDATE SKIP LOCKED`: 1,
		`DELETE FROM events.events
		  WHERE value IS NULL AND ctid = ANY ('{"(0,1)"}'::tid[]) AND id = ANY ('{1}'::bigint[])`: 1,
		`SELECT id FROM events.status`: 1,
	} {
		plan := apptest.Plan(t, db, `EXPLAIN (COSTS OFF) `+query)
		if got := strings.Count(plan, "Scan on "); got != want {
			t.Errorf("%s reads %d tables, want %d:\n%s", query, got, want, plan)
		}
	}
}

// TestStatusOfOneRow: without exactly one row no id is given, even when the table is damaged while the service runs.
func TestStatusOfOneRow(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]string{
		"none": `DELETE FROM events.status`, "two": `INSERT INTO events.status (id) VALUES (0)`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := dbtest.Postgres(t, postgres.Migrations())
			s, db := openStore(t, dsn, sqldb.PoolerNone), dbtest.Dial(t, dsn)
			apptest.Execute(t, db, damage)
			if id, err := s.Add(t.Context(), event.New{Value: "x"}); !errors.Is(err, event.ErrStatus) {
				t.Errorf("add: %d, %v", id, err)
			}
			if n := apptest.One[int](t, db, `SELECT count(*) FROM events.events`); n != 0 {
				t.Errorf("%d events, want none", n)
			}
		})
	}
}
