package bench

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/rowlock/rowlock/platform/sqldb"
)

// eventTable is the tables of events in one database, looked at from behind the service.
type eventTable struct {
	url   string
	mysql bool
}

// on runs f on a connection of its own.
func (t *eventTable) on(ctx context.Context, f func(conn *sql.Conn) error) (err error) {
	connector, err := sqldb.Connector(t.url)
	if err != nil {
		return fmt.Errorf("the database of the bench: %w", err)
	}

	db := sql.OpenDB(connector)
	defer func() { err = errors.Join(err, db.Close()) }()

	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connect to the database of the bench: %w", err)
	}

	defer func() { err = errors.Join(err, conn.Close()) }()

	return f(conn)
}

// sql is a statement of PostgreSQL's in the words of the engine.
func (t *eventTable) sql(postgres string) string {
	if !t.mysql {
		return postgres
	}

	for _, change := range [][2]string{
		{"events.status", "status"},
		{"events.events", "events"},
		{"generate_series(1, $1) AS s (n)", "(SELECT seq AS n FROM seq_1_to_1000000 LIMIT ?) AS s"},
		{"'word' || (s.n % 3000)", "concat('word', s.n % 3000)"},
		{"id, ctid::text", "id, 'x'"},
		{"$1", "?"},
	} {
		postgres = strings.ReplaceAll(postgres, change[0], change[1])
	}

	return postgres
}

// fill puts processed and pending events into empty tables.
func (t *eventTable) fill(ctx context.Context, processed, pending int) error {
	err := t.on(ctx, func(conn *sql.Conn) error {
		insert := t.sql(`INSERT INTO events.events (id, value) SELECT s.n, 'word' || (s.n % 3000) FROM generate_series(1, $1) AS s (n)`)
		if _, err := conn.ExecContext(ctx, insert, processed); err != nil {
			return fmt.Errorf("insert: %w", err)
		}

		_, err := conn.ExecContext(ctx, t.sql(`UPDATE events.status SET id = $1`), processed)

		return wrap("set status", err)
	})
	if err != nil {
		return err
	}

	if err := t.enqueue(ctx, pending); err != nil || t.mysql {
		return err
	}

	return t.on(ctx, func(conn *sql.Conn) error {
		_, err := conn.ExecContext(ctx, `VACUUM ANALYZE events.events`)

		return wrap("vacuum", err)
	})
}

func wrap(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}

	return nil
}

// enqueue adds n pending events in one transaction.
func (t *eventTable) enqueue(ctx context.Context, n int) error {
	return t.on(ctx, func(conn *sql.Conn) error {
		tx, err := conn.BeginTx(ctx, nil)
		if err != nil {
			return fmt.Errorf("enqueue: %w", err)
		}

		var last int64

		err = tx.QueryRowContext(ctx, t.sql(`SELECT id FROM events.status FOR UPDATE`)).Scan(&last)
		if err == nil {
			_, err = tx.ExecContext(ctx, t.sql(`UPDATE events.status SET id = id + $1`), n)
		}

		if err == nil {
			insert := fmt.Sprintf(`INSERT INTO events.events (id, value) SELECT %d + s.n, NULL FROM generate_series(1, $1) AS s (n)`, last)
			_, err = tx.ExecContext(ctx, t.sql(insert), n)
		}

		if err != nil {
			return errors.Join(fmt.Errorf("enqueue: %w", err), tx.Rollback())
		}

		return wrap("enqueue", tx.Commit())
	})
}

func (t *eventTable) number(ctx context.Context, query string) (n int64, err error) {
	err = t.on(ctx, func(conn *sql.Conn) error {
		return wrap("look into the tables", conn.QueryRowContext(ctx, t.sql(query)).Scan(&n))
	})

	return n, err
}

// count is the number of all events, really counted.
func (t *eventTable) count(ctx context.Context) (int64, error) {
	return t.number(ctx, `SELECT count(*) FROM events.events`)
}

// processed is the number of events that have their value.
func (t *eventTable) processed(ctx context.Context) (int64, error) {
	return t.number(ctx, `SELECT count(*) FROM events.events WHERE value IS NOT NULL`)
}

// claims runs the claim of a worker, of 100 events, n times and rolls it back.
func (t *eventTable) claims(ctx context.Context, n int) (*hdrhistogram.Histogram, error) {
	took := hdrhistogram.New(1, int64(time.Minute), 3)

	err := t.on(ctx, func(conn *sql.Conn) error {
		place := ` AND ctid >= '(0,0)'::tid`
		if t.mysql {
			place = ""
		}

		query := t.sql(`SELECT id, ctid::text FROM events.events WHERE value IS NULL` + place + ` LIMIT 100 FOR UPDATE SKIP LOCKED`)

		for i := range n + n/10 {
			tx, err := conn.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
			if err != nil {
				return fmt.Errorf("claim: %w", err)
			}

			begin := time.Now()
			claimed, err := countRows(ctx, tx, query)

			if i >= n/10 { // the first ones warm up
				_ = took.RecordValue(int64(time.Since(begin)))
			}

			if err = errors.Join(err, tx.Rollback()); err != nil || claimed != 100 {
				return fmt.Errorf("claim: %d events, %w", claimed, err)
			}
		}

		return nil
	})

	return took, err
}

// countRows reads the answer to the end.
func countRows(ctx context.Context, tx *sql.Tx, query string) (n int, err error) {
	rows, err := tx.QueryContext(ctx, query)
	if err != nil {
		return 0, wrap("query", err)
	}

	defer func() { err = errors.Join(err, rows.Close()) }()

	for rows.Next() {
		n++
	}

	return n, wrap("read the rows", rows.Err())
}

// untilWorked waits until the workers together say that they have worked n events, and returns the time since the first.
func untilWorked(ctx context.Context, admin []string, n int) (time.Duration, error) {
	client := &http.Client{Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()

	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()

	started := time.Now()

	for first := true; ; {
		sum := 0.0

		for _, addr := range admin {
			v, err := workedBy(ctx, client, addr)
			if err != nil {
				return 0, err
			}

			sum += v
		}

		switch {
		case sum >= float64(n):
			return time.Since(started), nil
		case first && sum > 0:
			first, started = false, time.Now()
		}

		select {
		case <-tick.C:
		case <-ctx.Done():
			return 0, fmt.Errorf("%g of %d events were worked: %w", sum, n, ctx.Err())
		}
	}
}

// workedBy reads events_worked_total.
func workedBy(ctx context.Context, client *http.Client, addr string) (v float64, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/metrics", http.NoBody)
	if err != nil {
		return 0, fmt.Errorf("read the metrics of a worker: %w", err)
	}

	response, err := client.Do(request)
	if err != nil {
		return 0, fmt.Errorf("read the metrics of a worker: %w", err)
	}

	defer func() { err = errors.Join(err, response.Body.Close()) }()

	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if text, found := strings.CutPrefix(lines.Text(), "events_worked_total "); found {
			if v, err = strconv.ParseFloat(text, 64); err != nil {
				return 0, fmt.Errorf("read the metrics of a worker: %w", err)
			}
		}
	}

	_, _ = io.Copy(io.Discard, response.Body)

	return v, wrap("read the metrics of a worker", lines.Err())
}
