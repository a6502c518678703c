package acceptance

import (
	"context"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	rowlock "github.com/rowlock/rowlock/client"
	"github.com/rowlock/rowlock/client/pyggpot"
	"github.com/rowlock/rowlock/client/pyggpot/coin"
	"github.com/rowlock/rowlock/client/pyggpot/pot"
	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/lab/internal/services"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/waittest"
)

// add puts n coins into the first pot by a replica.
func add(ctx context.Context, set *local.Set, n int32) error {
	_, err := pyggpot.New(urls(set)[0], options()).Coin.AddCoins(ctx, connect.NewRequest(&coin.AddCoinsRequest{
		PotId: 1, Coins: []*coin.Coins{{Kind: coin.Coins_GOLD, Count: n}},
	}))
	return err
}

// view reads the first pot while its lease is held, which waits for no lock, and
// demands so many coins.
func view(t *testing.T, set *local.Set, want int32) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	p, err := pyggpot.New(urls(set)[0], options()).Pot.ViewPot(ctx, connect.NewRequest(&pot.ViewPotRequest{PotId: 1}))
	if err != nil {
		t.Errorf("read the pot: %v", err)
		return
	}
	got := int32(0)
	for _, c := range p.Msg.GetCoins() {
		got += c.GetCount()
	}
	if got != want {
		t.Errorf("the pot has %d coins, want %d", got, want)
	}
}

// wantPot demands so many coins in the database, as the sum of the kinds too.
func wantPot(t *testing.T, dsn string, want int) {
	t.Helper()
	var coins, sum int
	scan(t, dsn, `SELECT coins, (SELECT coalesce(sum(coin_count), 0) FROM pyggpot.coin WHERE pot_id = pot.id)
		FROM pyggpot.pot WHERE id = 1`, &coins, &sum)
	if coins != sum || coins != want {
		t.Errorf("the pot has %d coins, its kinds %d; want %d", coins, sum, want)
	}
}

// holder is a replica that holds the pot's lease and waits in its fence, because
// the coins are locked by another transaction.
type holder struct {
	*local.Set

	free   func() // unlocks the coins
	answer chan error
}

// hold makes a pot, and lets a replica of its own add coins to it until its fence.
func hold(t *testing.T, dsn string, other *local.Set, variables map[string]string) holder {
	t.Helper()
	h := holder{Set: start(t, services.Pyggpot, 1, dsn, variables), answer: make(chan error, 1)}
	request := connect.NewRequest(&pot.CreatePotRequest{PotName: "Piggy", MaxCoins: 1000})
	if _, err := pyggpot.New(urls(other)[0], options()).Pot.CreatePot(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	tx, err := dial(t, dsn).BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), `LOCK TABLE pyggpot.coin IN ACCESS EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	h.free = sync.OnceFunc(func() {
		if err := tx.Rollback(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(h.free)
	go func() { h.answer <- add(t.Context(), h.Set, 5) }()
	waittest.Eventually(t, "it holds the lease and waits in its fence", func() bool {
		var waiting int
		scan(t, dsn, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
			AND cardinality(pg_blocking_pids(pid)) > 0 AND query LIKE '%FOR UPDATE OF p%'`, &waiting)
		return waiting == 1
	})
	return h
}

// leaseOver waits until the lease has been over for a while by the database's clock.
func leaseOver(t *testing.T, dsn, since string) {
	t.Helper()
	within(t, 30*time.Second, "the lease is over", func() (over bool) {
		scan(t, dsn, `SELECT lock_expire_time + '`+since+`' <= clock_timestamp() FROM pyggpot.pot WHERE id = 1`, &over)
		return over
	})
}

// TestStoppedHolder stops a holder (SIGSTOP) while it has the lease, for twice the
// lease's time, in its fence or within its transaction. Another replica takes the
// pot over; when the holder goes on, its change is refused, and nothing is applied
// twice. Reading waits for no lock meanwhile.
func TestStoppedHolder(t *testing.T) {
	t.Parallel()
	for name, within := range map[string]bool{"before its fence": false, "within its transaction": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := dbtest.Empty(t)
			other := start(t, services.Pyggpot, 1, dsn, map[string]string{"LOCK_TTL": "1s", "LOCK_RETRIES": "200"})
			h := hold(t, dsn, other, map[string]string{"LOCK_TTL": "1s", "LOCK_RETRIES": "0"})
			stopped := h.Replicas()[0]
			if err := stopped.Pause(); err != nil {
				t.Fatal(err)
			}
			if within { // its fence succeeds, and its session waits for a client that is stopped
				h.free()
				view(t, other, 0)
			} else {
				leaseOver(t, dsn, "0s")
				h.free()
			}
			if err := add(t.Context(), other, 2); err != nil {
				t.Errorf("another replica: %v", err)
			}
			wantPot(t, dsn, 2)
			if err := stopped.Resume(); err != nil {
				t.Fatal(err)
			}
			if err := <-h.answer; !rowlock.NotApplied(err) {
				t.Errorf("the stopped holder answers %v", err)
			}
			wantPot(t, dsn, 2)
			waittest.Eventually(t, "the stopped holder changes the pot again",
				func() bool { return add(t.Context(), h.Set, 2) == nil })
			wantPot(t, dsn, 4)
		})
	}
}

// TestKilledHolder kills a holder (SIGKILL): the pot is free when its lease is
// over, and nothing of its change is applied.
func TestKilledHolder(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Empty(t)
	other := start(t, services.Pyggpot, 1, dsn, map[string]string{"LOCK_RETRIES": "500"})
	h := hold(t, dsn, other, map[string]string{"LOCK_TTL": "2s"})
	if err := h.Replicas()[0].Kill(); err != nil {
		t.Fatal(err)
	}
	if err := <-h.answer; !rowlock.OutcomeUnknown(err) {
		t.Errorf("a killed replica answered %v", err)
	}
	h.free()
	view(t, other, 0)
	if err := add(t.Context(), other, 2); err != nil {
		t.Errorf("another replica: %v", err)
	}
	wantPot(t, dsn, 2)
}
