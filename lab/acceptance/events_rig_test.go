package acceptance

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/lab/internal/local/localtest"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/sqldb"
)

// eventsRig is the events service on one database of either engine.
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
			t.Cleanup(func() {
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			})
			rig.db = db
			test(t, rig)
		})
	}
}

// processes runs n processes of a command of the service.
func (rig *eventsRig) processes(t *testing.T, n int, command string, variables map[string]string) *local.Set {
	t.Helper()
	return localtest.Start(t, n, local.Spec{
		Service: "events-" + command, Path: localtest.Binary(t, "events"), Args: []string{command}, NoAPI: command == "work",
	}, rig.dsn, variables)
}

// number reads one number; TABLES in the query stand for the schema.
func (rig *eventsRig) number(t *testing.T, query string) (n int64) {
	t.Helper()
	if err := rig.db.GetContext(t.Context(), &n, strings.ReplaceAll(query, "TABLES.", rig.schema)); err != nil {
		t.Errorf("%s: %v", query, err)
	}
	return n
}

// slowDown makes every event take its worker a millisecond, by a trigger, which
// only a test may put there.
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

// worked is an event that has its value.
type worked struct {
	ID    int64  `db:"id"`
	Value string `db:"value"`
}

// values are those of the events that have one.
func (rig *eventsRig) values(t *testing.T) map[int64]string {
	t.Helper()
	var rows []worked
	if err := rig.db.SelectContext(t.Context(), &rows, `SELECT id, value FROM `+rig.schema+`events WHERE value IS NOT NULL`); err != nil {
		t.Fatal(err)
	}
	values := make(map[int64]string, len(rows))
	for _, row := range rows {
		if _, twice := values[row.ID]; twice {
			t.Errorf("event %d stands there twice", row.ID)
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
// then stalls, until the returned function is called, which gives them back.
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
		_, err := tx.ExecContext(ctx, tx.Rebind(`INSERT INTO `+rig.schema+`events (id, value) SELECT ? + s.seq, NULL FROM `+series), last, n)
		return err
	})
	if err != nil {
		t.Fatalf("enqueue %d events: %v", n, err)
	}
}

// eventAnswer is what came of a request to events.
type eventAnswer struct {
	answer

	ID    int64   `json:"id"`
	Value *string `json:"value"`
	Count int64   `json:"count"`
}

// event sends a request to events.
func (c *client) event(ctx context.Context, method, target string) (a eventAnswer) {
	req, err := http.NewRequestWithContext(ctx, method, target, http.NoBody)
	if err != nil {
		return eventAnswer{answer: answer{outcome: notApplied, err: err}}
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return eventAnswer{answer: answer{outcome: lost(err), err: err}}
	}
	raw, err := io.ReadAll(resp.Body)
	err = errors.Join(err, resp.Body.Close(), json.Unmarshal(raw, &a))
	a.status, a.err = resp.StatusCode, err
	return a
}
