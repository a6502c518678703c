package acceptance

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/client/events"
	"github.com/rowlock/rowlock/lab/internal/services"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/sqldb"
)

// holdAtMost is longer than any test holds what it has claimed.
const holdAtMost = 5 * time.Minute

// TestEventsAreWorkedOnce lets 4 workers in 2 processes work 20,000 pending events. One process is
// killed -9 in the middle, and again; a transaction that has claimed 100 events is held open all
// the while. The workers finish everything else; released, the 100 too. Every event has one value,
// and one that had it keeps it.
func TestEventsAreWorkedOnce(t *testing.T) {
	t.Parallel()
	onBothEngines(t, func(t *testing.T, rig *eventsRig) {
		t.Helper()
		const pending, held = 20_000, 100
		api, err := events.New(urls(start(t, services.Events, 1, rig.dsn, nil))[0], options())
		if err != nil {
			t.Fatal(err)
		}
		rig.enqueue(t, pending)
		rig.slowDown(t)
		stalled, release := rig.hold(t, held)
		if len(stalled) != held {
			t.Fatalf("%d events are held, want %d", len(stalled), held)
		}
		left := func() int64 { return rig.number(t, `SELECT count(*) FROM TABLES.events WHERE value IS NULL`) }
		// Batches that are small enough for a kill to come in the middle of the work.
		workers := startCommand(t, services.Events, "work", 2, rig.dsn,
			map[string]string{"WORKER_BATCH": "20", "WORKER_CONCURRENCY": "2"})
		var before map[int64]string
		for _, most := range []int64{pending * 4 / 5, pending / 2} {
			within(t, time.Minute, "the workers are in the middle", func() bool { return left() < most })
			if err := workers.Replicas()[0].Kill(); err != nil {
				t.Fatal(err)
			}
			before = rig.values(t)
		}
		if n := len(before); n == 0 || n >= pending-held {
			t.Errorf("%d of %d were worked when the worker was killed: the test proves nothing", n, pending)
		}
		within(t, 2*time.Minute, "all but the held ones are worked", func() bool { return left() == held })
		after := rig.values(t)
		for _, id := range stalled {
			if value, has := after[id]; has {
				t.Errorf("event %d was claimed, and has the value %q", id, value)
			}
		}
		// The held rows delay no other caller.
		if id, err := api.CreateAsync(t.Context()); err != nil || id != pending+1 {
			t.Errorf("an event beside the held ones: %d, %v", id, err)
		}
		within(t, 20*time.Second, "it is worked too", func() bool { return left() == held })
		release()
		within(t, 20*time.Second, "the released ones are worked", func() bool { return left() == 0 })
		rig.wantGapless(t, pending+1)
		maps.Copy(before, after)
		final := rig.values(t)
		for id, value := range before {
			if final[id] != value {
				t.Errorf("event %d had the value %q and has %q", id, value, final[id])
			}
		}
		if killed := workers.Replicas()[0].Status(); killed.Starts != 3 {
			t.Errorf("%s was started %d times, want 3", killed.Name, killed.Starts)
		}
	})
}

// eventsRig holds a database of either engine with the tables of events.
type eventsRig struct {
	dsn    string
	db     *sqldb.DB
	schema string // "events." on PostgreSQL, where a schema is one
}

// onBothEngines runs a test on an empty database of each engine.
func onBothEngines(t *testing.T, test func(t *testing.T, rig *eventsRig)) {
	t.Helper()
	for name, open := range map[string]func(t *testing.T) *eventsRig{
		"PostgreSQL": func(t *testing.T) *eventsRig {
			t.Helper()
			return &eventsRig{dsn: dbtest.Empty(t), schema: "events."}
		},
		"MariaDB": func(t *testing.T) *eventsRig {
			t.Helper()
			return &eventsRig{dsn: dbtest.EmptyMariaDB(t)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rig := open(t)
			settings := sqldb.Settings{URL: rig.dsn, Engines: []sqldb.Engine{sqldb.PostgreSQL, sqldb.MySQL}}
			db, err := sqldb.Open(t.Context(), settings, slog.New(slog.DiscardHandler), nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = db.Close() })
			rig.db = db
			test(t, rig)
		})
	}
}

// number reads one number; TABLES in the query stand for the schema.
func (rig *eventsRig) number(t *testing.T, query string) (n int64) {
	t.Helper()
	if err := rig.db.GetContext(t.Context(), &n, strings.ReplaceAll(query, "TABLES.", rig.schema)); err != nil {
		t.Errorf("%s: %v", query, err)
	}
	return n
}

// slowDown makes every event take its worker a millisecond, by a trigger.
func (rig *eventsRig) slowDown(t *testing.T) {
	t.Helper()
	statements := []string{`CREATE TRIGGER slow BEFORE UPDATE ON events FOR EACH ROW SET @slow = SLEEP(0.001)`}
	if rig.schema != "" {
		statements = []string{
			`CREATE FUNCTION public.slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.001); RETURN OLD; END'`,
			`CREATE TRIGGER slow BEFORE DELETE ON events.events FOR EACH ROW EXECUTE FUNCTION public.slow()`,
		}
	}
	err := rig.db.InTx(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
		for _, statement := range statements {
			if _, err := tx.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// values returns those of the events that have one.
func (rig *eventsRig) values(t *testing.T) map[int64]string {
	t.Helper()
	var rows []struct {
		ID    int64  `db:"id"`
		Value string `db:"value"`
	}
	if err := rig.db.SelectContext(t.Context(), &rows,
		`SELECT id, value FROM `+rig.schema+`events WHERE value IS NOT NULL`); err != nil {
		t.Fatal(err)
	}
	values := make(map[int64]string, len(rows))
	for _, row := range rows {
		if _, twice := values[row.ID]; twice {
			t.Errorf("event %d is stored twice", row.ID)
		}
		values[row.ID] = row.Value
	}
	return values
}

// wantGapless demands the ids 1..n, each once, and that status says n.
func (rig *eventsRig) wantGapless(t *testing.T, n int64) {
	t.Helper()
	for query, want := range map[string]int64{
		`SELECT id FROM TABLES.status`:                        n,
		`SELECT count(*) FROM TABLES.events`:                  n,
		`SELECT count(DISTINCT id) FROM TABLES.events`:        n,
		`SELECT coalesce(max(id), 0) FROM TABLES.events`:      n,
		`SELECT count(*) FROM TABLES.events WHERE id < 1`:     0,
		`SELECT count(*) FROM TABLES.status`:                  1,
		`SELECT count(*) FROM TABLES.events WHERE value = ''`: 0,
	} {
		if got := rig.number(t, query); got != want {
			t.Errorf("%s: %d, want %d", query, got, want)
		}
	}
}

// hold claims n pending events in a transaction of its own, as a worker does that
// then stalls, until release is called.
func (rig *eventsRig) hold(t *testing.T, n int) (ids []int64, release func()) {
	t.Helper()
	locked, free, done := make(chan []int64, 1), make(chan struct{}), make(chan error, 1)
	enough := errors.New("enough")
	go func() {
		done <- rig.db.InTx(context.WithoutCancel(t.Context()), func(ctx context.Context, tx *sqlx.Tx) error {
			var claimed []int64
			query := tx.Rebind(`SELECT id FROM ` + rig.schema + `events WHERE value IS NULL LIMIT ? FOR UPDATE SKIP LOCKED`)
			if err := tx.SelectContext(ctx, &claimed, query, n); err != nil {
				return err
			}
			locked <- claimed
			<-free
			return enough
		}, sqldb.WithIdleTimeout(holdAtMost))
	}()
	select {
	case ids = <-locked:
	case err := <-done:
		t.Fatalf("hold %d events: %v", n, err)
	}
	return ids, func() {
		close(free)
		if err := <-done; !errors.Is(err, enough) {
			t.Errorf("hold %d events: %v", n, err)
		}
	}
}

// enqueue adds n pending events at once, as the service would.
func (rig *eventsRig) enqueue(t *testing.T, n int) {
	t.Helper()
	series := `generate_series(1, ?) AS s (seq)`
	if rig.schema == "" {
		series = `(SELECT seq FROM seq_1_to_1000000 LIMIT ?) AS s`
	}
	err := rig.db.InTx(t.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
		var last int64
		if err := tx.GetContext(ctx, &last, `SELECT id FROM `+rig.schema+`status FOR UPDATE`); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, tx.Rebind(`UPDATE `+rig.schema+`status SET id = id + ?`), n); err != nil {
			return err
		}
		insert := `INSERT INTO ` + rig.schema + `events (id, value) SELECT ? + s.seq, NULL FROM ` + series
		_, err := tx.ExecContext(ctx, tx.Rebind(insert), last, n)
		return err
	})
	if err != nil {
		t.Fatalf("enqueue %d events: %v", n, err)
	}
}
