package pot_test

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/pyggpot/internal/postgres"
	"github.com/rowlock/rowlock/services/pyggpot/internal/pot"
)

func newService(r pot.Repository) *pot.Service {
	return pot.NewService(r, func() pot.Source { return rand.NewChaCha8([32]byte{1}) })
}

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }

// openStore opens a store on a database of the test's own.
func openStore(t *testing.T) *postgres.Store {
	t.Helper()
	db, err := sqldb.Open(t.Context(), sqldb.Settings{
		URL: dbtest.Postgres(t, postgres.Migrations()), MaxOpenConns: 4, LockTimeout: 5 * time.Second,
		StatementTimeout: 8 * time.Second, ApplicationName: "pyggpot",
	}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return postgres.New(db, postgres.Options{
		TTL: 10 * time.Second, Retries: 1, RetryWait: time.Millisecond, QueueWait: time.Second, Changes: 2,
	})
}

func coins(pairs ...int64) (list []pot.Coins) {
	for pair := range slices.Chunk(pairs, 2) {
		list = append(list, pot.Coins{Kind: pot.Kind(pair[0]), Count: pair[1]})
	}
	return list
}

func TestAddAndRemove(t *testing.T) {
	t.Parallel()
	s := newService(openStore(t))
	p, err := s.Create(t.Context(), "pot", 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		do    func(context.Context) ([]pot.Coins, error)
		want  []pot.Coins
		err   error
		after []pot.Coins
	}{
		{
			"kinds are summed and sorted",
			func(ctx context.Context) ([]pot.Coins, error) { return s.Add(ctx, p.ID, coins(100, 1, 1, 50, 100, 2)) },
			coins(1, 50, 100, 3), nil, coins(1, 50, 100, 3),
		},
		{
			"one too many",
			func(ctx context.Context) ([]pot.Coins, error) { return s.Add(ctx, p.ID, coins(10, 40, 1, 8)) },
			nil, pot.ErrFull, coins(1, 50, 100, 3),
		},
		{
			"far too many",
			func(ctx context.Context) ([]pot.Coins, error) {
				return s.Add(ctx, p.ID, slices.Repeat(coins(10, math.MaxInt32), 100))
			},
			nil, pot.ErrFull, coins(1, 50, 100, 3),
		},
		{
			"until it is full",
			func(ctx context.Context) ([]pot.Coins, error) { return s.Add(ctx, p.ID, coins(10, 47)) },
			coins(10, 47), nil, coins(1, 50, 10, 47, 100, 3),
		},
		{
			"no more than there is",
			func(ctx context.Context) ([]pot.Coins, error) {
				return s.Remove(ctx, p.ID, coins(100, 2, 100, 2, 1, 5), 0)
			},
			coins(1, 5, 100, 3), nil, coins(1, 45, 10, 47),
		},
		{
			"none of the kind",
			func(ctx context.Context) ([]pot.Coins, error) { return s.Remove(ctx, p.ID, coins(100, 1), 0) },
			nil, nil, coins(1, 45, 10, 47),
		},
		{
			"kinds first, then all of the rest",
			func(ctx context.Context) ([]pot.Coins, error) { return s.Remove(ctx, p.ID, coins(1, 45), 46) },
			coins(1, 45, 10, 46), nil, coins(10, 1),
		},
		{
			"more at random than there are",
			func(ctx context.Context) ([]pot.Coins, error) { return s.Remove(ctx, p.ID, nil, math.MaxInt32) },
			coins(10, 1), nil, nil,
		},
		{
			"out of nothing",
			func(ctx context.Context) ([]pot.Coins, error) { return s.Remove(ctx, p.ID, nil, 1) },
			nil, nil, nil,
		},
		{"neither", func(ctx context.Context) ([]pot.Coins, error) { return s.Remove(ctx, p.ID, nil, 0) }, nil, pot.ErrInvalid, nil},
		{"below none", func(ctx context.Context) ([]pot.Coins, error) { return s.Remove(ctx, p.ID, coins(1, 1), -1) }, nil, pot.ErrInvalid, nil},
		{"no coins", func(ctx context.Context) ([]pot.Coins, error) { return s.Add(ctx, p.ID, nil) }, nil, pot.ErrInvalid, nil},
		{"no kind", func(ctx context.Context) ([]pot.Coins, error) { return s.Add(ctx, p.ID, coins(0, 1)) }, nil, pot.ErrInvalid, nil},
		{"no count", func(ctx context.Context) ([]pot.Coins, error) { return s.Remove(ctx, p.ID, coins(1, 0), 1) }, nil, pot.ErrInvalid, nil},
		{"no pot", func(ctx context.Context) ([]pot.Coins, error) { return s.Add(ctx, 99, coins(1, 1)) }, nil, pot.ErrNotFound, nil},
		{"nowhere", func(ctx context.Context) ([]pot.Coins, error) { return s.Remove(ctx, 99, nil, 1) }, nil, pot.ErrNotFound, nil},
	} {
		got, err := tt.do(t.Context())
		if !errors.Is(err, tt.err) || !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, %v; want %v, %v", tt.name, got, err, tt.want, tt.err)
		}
		now, err := s.View(t.Context(), p.ID)
		if err != nil || !slices.Equal(now.Contents.List(), tt.after) {
			t.Errorf("%s: left %v (%v), want %v", tt.name, now.Contents.List(), err, tt.after)
		}
	}
}

func TestPages(t *testing.T) {
	t.Parallel()
	s := newService(openStore(t))
	for i := range 30 {
		if _, err := s.Create(t.Context(), string(rune('a'+i)), 10); err != nil {
			t.Fatal(err)
		}
	}
	for page, want := range map[pot.Page]int{
		{Number: 1}: 25, {Number: 2}: 5, {Number: 3}: 0, {Number: 1, Size: 100}: 30, {Number: math.MaxInt32, Size: 100}: 0,
	} {
		if list, total, err := s.List(t.Context(), page); err != nil || len(list) != want || total != 30 {
			t.Errorf("%+v: %d of %d (%v), want %d", page, len(list), total, err, want)
		}
	}
	for _, page := range []pot.Page{{}, {Number: -1}, {Number: 1, Size: -1}, {Number: 1, Size: 101}} {
		if _, _, err := s.List(t.Context(), page); !errors.Is(err, pot.ErrInvalid) {
			t.Errorf("%+v: %v", page, err)
		}
	}
	if p, err := s.ViewByName(t.Context(), "b"); err != nil || p.ID != 2 {
		t.Errorf("%+v, %v", p, err)
	}
}

// The source of the system is not the same twice.
func TestNewSource(t *testing.T) {
	t.Parallel()
	if a, b := pot.NewSource().Uint64(), pot.NewSource().Uint64(); a == b {
		t.Error("two sources begin alike")
	}
}
