package groupcommit_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/groupcommit"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
)

func TestMain(m *testing.M) { os.Exit(dbtest.MainWithoutLeaks(m)) }

// They are longer than a busy machine takes for what the tests do meanwhile.
const lockTimeout, statementTimeout = 30 * time.Second, time.Minute

// tables makes a small service's schema: counters that requests add 1 to, and slots.
const tables = `
CREATE SCHEMA rig;
CREATE TABLE rig.counters (key text PRIMARY KEY, n bigint NOT NULL CHECK (n < 1000));
CREATE TABLE rig.slots (id uuid PRIMARY KEY, attempt bigint NOT NULL, answers json, used_at timestamptz NOT NULL);
INSERT INTO rig.counters SELECT 'key-' || i, 0 FROM generate_series(0, 19) AS i;
INSERT INTO rig.counters VALUES ('full', 999)`

// rig is one replica of that service.
type rig struct {
	*groupcommit.Committer[string, request, int64]

	slots *groupcommit.Slots
	// direct is a pool of another client, past the fault proxy.
	direct   *sqlx.DB
	registry *prometheus.Registry
	seen     *apptest.Contention
}

// request adds 1 to the counter of a key, or makes it, with 1, if it is not there.
type request struct {
	key  string
	make bool
}

func (q request) of() string { return q.key }

// database returns the address of a new database with the tables.
func database(t *testing.T) string {
	t.Helper()
	dsn := dbtest.Empty(t)
	apptest.Execute(t, dbtest.Dial(t, dsn), tables)
	return dsn
}

// start starts a replica on the database at dsn, which through leads to.
func start(t *testing.T, dsn, through string, changes ...func(*groupcommit.Config[string, request, int64])) *rig {
	t.Helper()
	r := &rig{
		direct: dbtest.Dial(t, dsn), registry: prometheus.NewRegistry(),
		seen: apptest.NewContention(t, contention.Settings{Lock: "counter", Queued: true, Grouped: true}),
	}
	db := apptest.Pool(t, sqldb.Settings{
		URL: through, MaxOpenConns: 6, LockTimeout: lockTimeout, StatementTimeout: statementTimeout,
		ApplicationName: "rig", Contention: r.seen.Metrics,
	}, r.registry)
	r.slots = groupcommit.NewSlots(db, "rig", statementTimeout)
	cfg := groupcommit.Config[string, request, int64]{
		Limits: groupcommit.Limits{
			DB: db, Slots: r.slots, LockTimeout: lockTimeout, StatementTimeout: statementTimeout,
			Contention: r.seen.Metrics, Registry: r.registry,
		},
		Name: "rig_add", Key: request.of, Send: add, Transaction: true,
	}
	for _, change := range changes {
		change(&cfg)
	}

	var err error
	if r.Committer, err = groupcommit.New(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return r
}

// add sends a group: it locks the counters in the order of their keys, and decides here.
func add(ctx context.Context, s groupcommit.Session, a *groupcommit.Attempt, group []request) error {
	var keys, create []string
	for _, q := range group {
		keys = append(keys, q.key)
		if q.make {
			create = append(create, q.key)
		}
	}
	slices.Sort(keys)
	slices.Sort(create)

	if len(create) > 0 {
		const insert = `INSERT INTO rig.counters SELECT DISTINCT k, 0 FROM unnest($1::text[]) AS k ORDER BY k
			ON CONFLICT DO NOTHING`
		if _, err := s.ExecContext(ctx, insert, pq.Array(create)); err != nil {
			return err
		}
	}
	lock := `SELECT key, n FROM rig.counters WHERE key = ANY ($1) ORDER BY key FOR UPDATE`
	if a.SkipLocked {
		lock += ` SKIP LOCKED`
	}
	var rows []struct {
		Key string
		N   int64
	}
	if err := s.SelectContext(ctx, &rows, lock, pq.Array(keys)); err != nil {
		return err
	}

	n := map[string]int64{}
	for _, row := range rows {
		n[row.Key] = row.N
	}
	answers := make([]*int64, len(group))
	for i, q := range group {
		if value, found := n[q.key]; found {
			value++
			n[q.key], answers[i] = value, &value
		} else if !a.SkipLocked {
			return errMissing
		}
	}

	var changed []string
	var values []int64
	for _, row := range rows {
		changed, values = append(changed, row.Key), append(values, n[row.Key])
	}
	const update = `UPDATE rig.counters c SET n = w.n
		FROM unnest($1::text[], $2::bigint[]) AS w (key, n) WHERE c.key = w.key`
	if _, err := s.ExecContext(ctx, update, pq.Array(changed), pq.Array(values)); err != nil {
		return err
	}
	return a.Store(ctx, s, answers)
}

var errMissing = errors.New("there is no such counter")

// value returns a counter's value.
func (r *rig) value(t *testing.T, key string) (n int64) {
	t.Helper()
	if err := r.direct.GetContext(t.Context(), &n, `SELECT n FROM rig.counters WHERE key = $1`, key); err != nil {
		t.Fatal(err)
	}
	return n
}

// metric returns a series of the committer.
func (r *rig) metric(t *testing.T, name string) float64 {
	t.Helper()
	return apptest.Gathered(t, r.registry, name+`{coalescer="rig_add"}`)
}
