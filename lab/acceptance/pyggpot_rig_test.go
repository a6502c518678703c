package acceptance

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/lab/internal/local/localtest"
)

// pyggpot runs n replicas of pyggpot on the database; variables go over the defaults.
func pyggpot(t *testing.T, n int, dsn string, variables map[string]string) *local.Set {
	t.Helper()
	return localtest.Start(t, n, local.Spec{Service: "pyggpot", Path: localtest.Binary(t, "pyggpot")}, dsn, variables)
}

// moved is what came of a change of a pot.
type moved struct {
	outcome outcome
	code    string // Connect's
	coins   int    // that were put in or taken out
	took    time.Duration
	err     error
}

// procedure calls one by plain JSON.
func (c *client) procedure(ctx context.Context, addr, name, body string) (m moved) {
	begin := time.Now()
	defer func() { m.took = time.Since(begin) }()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/"+name, strings.NewReader(body))
	if err != nil {
		return moved{outcome: notApplied, err: err}
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return moved{outcome: lost(err), err: err}
	}
	raw, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return moved{outcome: unknown, err: err}
	}
	var doc struct {
		Code  string
		Coins []struct{ Count int }
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return moved{outcome: unknown, err: fmt.Errorf("status %d with %q: %w", resp.StatusCode, raw, err)}
	}
	m.code = doc.Code
	for _, kind := range doc.Coins {
		m.coins += kind.Count
	}
	switch doc.Code {
	case "":
	case "unavailable", "aborted", "failed_precondition":
		m.outcome = notApplied
	case "unknown":
		m.outcome = unknown
	default:
		m.outcome, m.err = refused, fmt.Errorf("status %d with %s", resp.StatusCode, raw)
	}
	return m
}

// makePot makes the first pot.
func (c *client) makePot(t *testing.T, addr string, maxCoins int) {
	t.Helper()
	m := c.procedure(t.Context(), addr, "pyggpot.pot.Pot/CreatePot", fmt.Sprintf(`{"pot_name":"Piggy","max_coins":%d}`, maxCoins))
	if m.code != "" || m.err != nil {
		t.Fatalf("make a pot: %+v", m)
	}
}

// add puts gold coins into the first pot.
func (c *client) add(ctx context.Context, addr string, n int) moved {
	return c.procedure(ctx, addr, "pyggpot.coin.Coin/AddCoins",
		fmt.Sprintf(`{"pot_id":1,"coins":[{"kind":"GOLD","count":%d},{"kind":"BRONZE","count":%d}]}`, n, n))
}

// remove takes coins at random.
func (c *client) remove(ctx context.Context, addr string, n int) moved {
	return c.procedure(ctx, addr, "twirp/pyggpot.coin.Coin/RemoveCoins", fmt.Sprintf(`{"pot_id":1,"count":%d}`, n))
}

// inPot reads the first pot by the API.
func (c *client) inPot(t *testing.T, addr string) moved {
	t.Helper()
	m := c.procedure(t.Context(), addr, "pyggpot.pot.Pot/ViewPot", `{"pot_id":1}`)
	if m.code != "" || m.err != nil {
		t.Errorf("look into the pot: %+v", m)
	}
	return m
}

// wantPot demands so many coins in the books, whose sum is that of the kinds.
func wantPot(t *testing.T, db *sql.DB, low, high int) {
	t.Helper()
	var coins, sum int
	if err := db.QueryRowContext(t.Context(), `SELECT coins, (SELECT coalesce(sum(coin_count), 0) FROM pyggpot.coin WHERE pot_id = pot.id)
		FROM pyggpot.pot WHERE id = 1`).Scan(&coins, &sum); err != nil {
		t.Fatal(err)
	}
	if coins != sum || coins < low || coins > high {
		t.Errorf("the pot has %d coins, its kinds %d; want %d to %d", coins, sum, low, high)
	}
}

// holder is a replica that holds the pot's lease and can go no further: the coins
// are locked before it, and it waits for them in its fence.
type holder struct {
	free   func() // lets it go on
	answer chan moved
}

// hold lets a replica add coins until its fence.
func hold(t *testing.T, c *client, db *sql.DB, addr string, coins int) holder {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), `LOCK TABLE pyggpot.coin IN ACCESS EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	h := holder{answer: make(chan moved, 1), free: sync.OnceFunc(func() {
		if err := tx.Rollback(); err != nil {
			t.Error(err)
		}
	})}
	t.Cleanup(h.free)
	go func() { h.answer <- c.add(t.Context(), addr, coins) }()
	eventually(t, "it holds the lease and waits in its fence", 10*time.Second, func() bool {
		var waiting int
		return db.QueryRowContext(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
			AND cardinality(pg_blocking_pids(pid)) > 0 AND query LIKE '%FOR UPDATE OF p%'`).Scan(&waiting) == nil && waiting == 1
	})
	return h
}

// leaseOver waits until the lease has expired by the database's clock.
func leaseOver(t *testing.T, db *sql.DB) {
	t.Helper()
	eventually(t, "the lease is over", 30*time.Second, func() bool {
		var over bool
		return db.QueryRowContext(t.Context(), `SELECT lock_expire_time <= clock_timestamp() FROM pyggpot.pot WHERE id = 1`).
			Scan(&over) == nil && over
	})
}
