package acceptance

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/jmoiron/sqlx"

	rowlock "github.com/rowlock/rowlock/client"
	"github.com/rowlock/rowlock/client/pyggpot"
	"github.com/rowlock/rowlock/client/pyggpot/coin"
	"github.com/rowlock/rowlock/client/pyggpot/pot"
	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/lab/internal/targets"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// add puts n coins into the first pot by a replica.
func add(ctx context.Context, replica *local.Replica, n int32) error {
	_, err := pyggpot.New(url(replica), options()...).Coin.AddCoins(ctx, connect.NewRequest(&coin.AddCoinsRequest{
		PotId: 1, Coins: []*coin.Coins{{Kind: coin.Coins_GOLD, Count: n}},
	}))
	return err
}

// wantNoCoins reads the first pot while its lease is held, which waits for no lock.
func wantNoCoins(t *testing.T, replica *local.Replica) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	request := connect.NewRequest(&pot.ViewPotRequest{PotId: 1})
	p, err := pyggpot.New(url(replica), options()...).Pot.ViewPot(ctx, request)
	if err != nil || len(p.Msg.GetCoins()) > 0 {
		t.Errorf("the pot is %v, %v, want no coins", p, err)
	}
}

// wantPot demands so many coins in the database, as the sum of the kinds too.
func wantPot(t *testing.T, db *sqlx.DB, want int) {
	t.Helper()
	got := get[struct{ Coins, Sum int }](t, db, `SELECT coins,
		(SELECT coalesce(sum(coin_count), 0) FROM pyggpot.coin WHERE pot_id = pot.id) AS sum
		FROM pyggpot.pot WHERE id = 1`)
	if got.Coins != got.Sum || got.Coins != want {
		t.Errorf("the pot has %+v, want %d", got, want)
	}
}

// hold makes a pot and lets a replica add coins to it until its lease waits to read the
// pot's coins, which another transaction has locked. It returns the function that unlocks
// them, and the channel of the replica's answer.
func hold(t *testing.T, db *sqlx.DB, holder *local.Replica) (func(), <-chan error) {
	t.Helper()
	request := connect.NewRequest(&pot.CreatePotRequest{PotName: "Piggy", MaxCoins: 1000})
	if _, err := pyggpot.New(url(holder), options()...).Pot.CreatePot(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	// Its statements are prepared from now on: the server has all that it needs for the next lease.
	if err := add(t.Context(), holder, 1001); connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Fatalf("more coins than fit: %v", err)
	}

	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), `LOCK TABLE pyggpot.coin IN ACCESS EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	free := sync.OnceFunc(func() {
		if err := tx.Rollback(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(free)

	answer := make(chan error, 1)
	go func() { answer <- add(t.Context(), holder, 5) }()
	waittest.Eventually(t, "its lease waits for the coins", func() bool {
		return get[bool](t, db, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database()
			AND cardinality(pg_blocking_pids(pid)) > 0 AND query LIKE '%SET lock = $2%')`)
	})
	return free, answer
}

// stopped reports whether every thread of the replica's process has stopped. SIGSTOP reaches one after the other, and
// on a busy machine some go on for a while.
func stopped(t *testing.T, replica *local.Replica) bool {
	t.Helper()
	stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", replica.Status().PID))
	if err != nil || len(stats) == 0 {
		t.Fatalf("the process of the replica has no threads: %v", err)
	}
	return !slices.ContainsFunc(stats, func(name string) bool {
		stat, err := os.ReadFile(name)
		_, state, _ := strings.Cut(string(stat), ") ") // behind the program's name
		return err != nil || !strings.HasPrefix(state, "T")
	})
}

// TestStoppedHolder stops a holder (SIGSTOP) before it reads the answer to its lease, until
// the lease is over. Another replica takes the pot over; when the holder goes on, its
// change is refused, and nothing is applied twice. Reading waits for no lock meanwhile.
func TestStoppedHolder(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Empty(t)
	db := dbtest.Dial(t, dsn)
	other := start(t, targets.Pyggpot, dsn, map[string]string{"LOCK_TTL": "1s", "LOCK_RETRIES": "200"})
	holder := start(t, targets.Pyggpot, dsn, map[string]string{"LOCK_TTL": "1s", "LOCK_RETRIES": "0"})

	free, answer := hold(t, db, holder)
	if err := holder.Pause(); err != nil {
		t.Fatal(err)
	}
	waittest.Eventually(t, "the holder has stopped", func() bool { return stopped(t, holder) })

	free() // it would now change the pot
	waittest.Eventually(t, "the holder has the lease", func() bool {
		return get[bool](t, db, `SELECT lock IS NOT NULL FROM pyggpot.pot WHERE id = 1`)
	})

	wantNoCoins(t, other)
	if err := add(t.Context(), other, 2); err != nil {
		t.Errorf("another replica: %v", err)
	}
	wantPot(t, db, 2)

	if err := holder.Resume(); err != nil {
		t.Fatal(err)
	}
	if err := <-answer; !rowlock.NotApplied(err) {
		t.Errorf("the stopped holder answers %v", err)
	}
	wantPot(t, db, 2)
	waittest.Eventually(t, "the stopped holder changes the pot again",
		func() bool { return add(t.Context(), holder, 2) == nil })
	wantPot(t, db, 4)
}
