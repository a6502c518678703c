package mysql_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/services/events/internal/event"
	"github.com/rowlock/rowlock/services/events/internal/event/eventtest"
	"github.com/rowlock/rowlock/services/events/internal/mysql"
)

// execute runs a statement without the service.
func execute(t *testing.T, db *sqldb.DB, statement string) {
	t.Helper()
	if _, err := db.Once().ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

// TestCatalogueKeepsTheRules reads the source's rules from the catalogue.
func TestCatalogueKeepsTheRules(t *testing.T) {
	t.Parallel()
	db := openPool(t, dbtest.MariaDB(t, mysql.Migrations()), nil)
	const two = ` AND table_name IN ('status', 'events')`
	for what, query := range map[string]string{
		"indexes and keys": `SELECT count(*) FROM information_schema.statistics WHERE table_schema = database()` + two,
		"constraints": `SELECT count(*) FROM information_schema.table_constraints
		               WHERE table_schema = database()` + two,
		"checks":   `SELECT count(*) FROM information_schema.check_constraints WHERE constraint_schema = database()`,
		"triggers": `SELECT count(*) FROM information_schema.triggers WHERE trigger_schema = database()`,
		"routines": `SELECT count(*) FROM information_schema.routines WHERE routine_schema = database()`,
		"sequences": `SELECT count(*) FROM information_schema.tables
		               WHERE table_schema = database() AND table_type <> 'BASE TABLE'`,
		"auto-increments": `SELECT count(*) FROM information_schema.columns
		               WHERE table_schema = database() AND (extra <> '' OR column_default NOT IN ('NULL'))` + two,
		"scheduled events": `SELECT count(*) FROM information_schema.events WHERE event_schema = database()`,
	} {
		if n := apptest.One[int](t, db, query); n != 0 {
			t.Errorf("%s: %d, want none", what, n)
		}
	}
	var columns []string
	const query = `SELECT concat(table_name, '.', column_name, ' ', data_type, ' ', is_nullable)
	                 FROM information_schema.columns WHERE table_schema = database()` + two + ` ORDER BY 1`
	if err := db.SelectContext(t.Context(), &columns, query); err != nil {
		t.Fatal(err)
	}
	want := "events.id bigint NO, events.value varchar YES, status.id bigint NO"
	if got := strings.Join(columns, ", "); got != want {
		t.Errorf("the columns are %s, want %s", got, want)
	}
}

// TestPlansReadFewPartitions: a claim, a lookup and a finish read only the partitions that they need.
func TestPlansReadFewPartitions(t *testing.T) {
	t.Parallel()
	db := openPool(t, dbtest.MariaDB(t, mysql.Migrations()), nil)
	// MariaDB tells the partitions only when asked, MySQL in one of its formats.
	explain := apptest.One[string](t, db,
		`SELECT if(version() LIKE '%MariaDB%', 'EXPLAIN PARTITIONS ', 'EXPLAIN FORMAT=TRADITIONAL ')`)

	for query, check := range map[string]func(partitions string) bool{
		`SELECT value FROM events WHERE id = 77 LIMIT 1`: func(p string) bool {
			return p == "pending_pendingsp13,processed_processedsp13"
		},
		`SELECT id FROM events WHERE value IS NULL LIMIT 9 FOR UPDATE SKIP LOCKED`: func(p string) bool {
			return !strings.Contains(p, "processed") && strings.Count(p, ",") == 63
		},
		`UPDATE events SET value = 'x' WHERE value IS NULL AND id IN (1, 65, 2) LIMIT 3`: func(p string) bool {
			return p == "pending_pendingsp1,pending_pendingsp2"
		},
	} {
		plan := make(map[string]any)
		err := db.InTx(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
			return tx.QueryRowxContext(ctx, explain+query).MapScan(plan)
		})
		if err != nil {
			t.Fatal(err)
		}
		if read := fmt.Sprintf("%s", plan["partitions"]); !check(read) {
			t.Errorf("%s reads %s", query, read)
		}
	}
}

// TestStatementBinlogIsRefused: the start refuses a server that would refuse every write.
func TestStatementBinlogIsRefused(t *testing.T) {
	t.Parallel()
	_, dsn := dbtest.MariaServer(t, map[string]string{"log-bin": "binlog", "binlog-format": "STATEMENT"})
	db := openPool(t, dsn, nil)
	execute(t, db, `CREATE TABLE status (id bigint)`)
	err := db.InTx(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO status (id) VALUES (0)`)
		return err
	})
	if err == nil {
		t.Error("the server does not refuse: the check is not needed")
	}
	execute(t, db, `CREATE OR REPLACE TABLE status ENGINE = Aria SELECT 0 AS id`)
	if err := mysql.Check(t.Context(), db); err == nil || !strings.Contains(err.Error(), "binlog_format") {
		t.Errorf("check: %v", err)
	}
}

// TestBacklogIsWorkedByParts: a backlog is worked partition by partition, to the last event.
func TestBacklogIsWorkedByParts(t *testing.T) {
	t.Parallel()
	dsn := dbtest.MariaDB(t, mysql.Migrations())
	s, db := openStore(t, dsn, nil), openPool(t, dsn, nil)
	const backlog = 1000 // the longest sequence that MySQL makes by default (cte_max_recursion_depth)
	execute(t, db, fmt.Sprintf(`INSERT INTO events (id, value)
	  WITH RECURSIVE seq AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM seq WHERE n < %d)
	  SELECT n, NULL FROM seq`, backlog))
	execute(t, db, fmt.Sprintf(`UPDATE status SET id = %d`, backlog))
	batches := make(map[event.ID]bool) // the partitions of which a batch had only events
	total := 0
	for n := 1; n > 0; total += n {
		var parts []event.ID
		var err error
		if n, err = s.Work(t.Context(), 10, func(id event.ID) string {
			parts = append(parts, id%mysql.Parts)
			return "x"
		}); err != nil {
			t.Fatal(err)
		}
		if slices.Sort(parts); n > 0 && parts[0] == parts[n-1] {
			batches[parts[0]] = true
		}
	}
	if total != backlog || len(batches) < mysql.Parts/2 {
		t.Errorf("%d of %d were worked, in batches of %d parts", total, backlog, len(batches))
	}
	eventtest.WantWhole(t, db, "")
}

// TestStatusOfOneRow: without exactly one row no id is given, even when the table is damaged while the service runs.
func TestStatusOfOneRow(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]string{
		"none": `DELETE FROM status`, "two": `INSERT INTO status (id) VALUES (0)`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := dbtest.MariaDB(t, mysql.Migrations())
			s, db := openStore(t, dsn, nil), openPool(t, dsn, nil)
			execute(t, db, damage)
			if err := mysql.Check(t.Context(), db); !errors.Is(err, event.ErrStatus) {
				t.Errorf("check: %v", err)
			}
			if id, err := s.Add(t.Context(), event.New{Value: "x"}); !errors.Is(err, event.ErrStatus) {
				t.Errorf("add: %d, %v", id, err)
			}
			if n := apptest.One[int](t, db, `SELECT count(*) FROM events`); n != 0 {
				t.Errorf("%d events, want none", n)
			}
		})
	}
}
