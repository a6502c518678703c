package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/rowlock/rowlock/lab/internal/load"
)

// eventTable reaches the tables of events in one database behind the service.
type eventTable struct {
	url   string
	mysql bool
}

// sql returns a statement of PostgreSQL's in the words of the engine.
func (t *eventTable) sql(postgres string) string {
	if !t.mysql {
		return postgres
	}
	return strings.NewReplacer(
		"events.status", "status", "events.events", "events", " AND ctid >= '(0,0)'::tid", "",
		"generate_series(1, ", "(SELECT seq AS n FROM seq_1_to_1000000 LIMIT ", ") AS s (n)", ") AS s",
		"'word' || (s.n % 3000)", "concat('word', s.n % 3000)",
	).Replace(postgres)
}

func (t *eventTable) number(query string) func(context.Context) (int64, error) {
	return number(t.url, t.sql(query))
}

// fill puts processed events, and pending ones beside them, into empty tables.
func (t *eventTable) fill(ctx context.Context, processed int) error {
	err := execute(ctx, t.url, `BEGIN`,
		t.sql(fmt.Sprintf(`INSERT INTO events.events (id, value)
			SELECT s.n, 'word' || (s.n %% 3000) FROM generate_series(1, %d) AS s (n)`, processed)),
		t.sql(fmt.Sprintf(`UPDATE events.status SET id = %d`, processed)), `COMMIT`)
	if err == nil {
		err = t.enqueue(ctx, pendingBeside)
	}
	if err != nil || t.mysql {
		return err
	}
	return execute(ctx, t.url, `VACUUM ANALYZE events.events`)
}

// enqueue adds n pending events in one transaction.
func (t *eventTable) enqueue(ctx context.Context, n int) error {
	return execute(ctx, t.url, `BEGIN`,
		t.sql(fmt.Sprintf(`UPDATE events.status SET id = id + %d`, n)),
		t.sql(fmt.Sprintf(`INSERT INTO events.events (id, value)
			SELECT status.id - %d + s.n, NULL FROM events.status AS status, generate_series(1, %d) AS s (n)`, n, n)), `COMMIT`)
}

// claims runs the claim of a worker, of 100 events, n times and rolls it back. A tenth more warm up.
func (t *eventTable) claims(ctx context.Context, n int) (*hdrhistogram.Histogram, error) {
	query := t.sql(`SELECT count(*) FROM (SELECT id FROM events.events WHERE value IS NULL AND ctid >= '(0,0)'::tid
		LIMIT 100 FOR UPDATE SKIP LOCKED) AS claimed`)
	took := load.NewHistogram()
	err := withConn(ctx, t.url, func(conn *sql.Conn) error {
		for i := range n + n/10 {
			tx, err := conn.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
			if err != nil {
				return fmt.Errorf("claim: %w", err)
			}
			var claimed int
			begin := time.Now()
			err = tx.QueryRowContext(ctx, query).Scan(&claimed)
			if i >= n/10 && err == nil {
				err = took.RecordValue(int64(time.Since(begin)))
			}
			if ended := tx.Rollback(); err != nil || ended != nil || claimed != 100 {
				return fmt.Errorf("claim: %d events, %w", claimed, errors.Join(err, ended))
			}
		}
		return nil
	})
	return took, err
}
