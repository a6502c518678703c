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
	"github.com/rowlock/rowlock/platform/testkit/waittest"
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

type config = groupcommit.Config[string, request, int64]

// start starts a replica on a new database.
func start(t *testing.T, changes ...func(*config)) *rig {
	t.Helper()
	dsn := database(t)
	return startOn(t, sqldb.ClusterNone, dsn, dsn, changes...)
}

// startOn starts a replica on the database at dsn, which through leads to.
func startOn(t *testing.T, cluster sqldb.Cluster, dsn, through string, changes ...func(*config)) *rig {
	t.Helper()
	r := &rig{
		direct: dbtest.Dial(t, dsn), registry: prometheus.NewRegistry(),
		seen: apptest.NewContention(t, contention.Settings{Lock: "counter", Queued: true, Grouped: true}),
	}
	db := apptest.Pool(t, sqldb.Settings{
		URL: through, Cluster: cluster, MaxOpenConns: 8, LockTimeout: lockTimeout, StatementTimeout: statementTimeout,
		ApplicationName: "rig", Contention: r.seen.Metrics,
	}, r.registry)
	var options []groupcommit.SlotOption
	if cluster == sqldb.ClusterCitus {
		options = append(options, groupcommit.Beside("rig.counters"))
	}
	r.slots = groupcommit.NewSlots(db, "rig", statementTimeout, options...)
	cfg := config{
		Limits: groupcommit.Limits{
			DB: db, Slots: r.slots, LockTimeout: lockTimeout, StatementTimeout: statementTimeout,
			Contention: r.seen.Metrics, Registry: r.registry,
		},
		Name: "rig_add", Key: request.of, Place: request.of, Send: add, Transaction: true,
	}
	for _, change := range changes {
		change(&cfg)
	}

	r.Committer = groupcommit.New(cfg)
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

// hold lets another client lock a counter.
func (r *rig) hold(t *testing.T, key string) apptest.Holder {
	t.Helper()
	return apptest.Hold(t, r.direct, `SELECT FROM rig.counters WHERE key = $1 FOR UPDATE`, key)
}

// do sends a request.
func (r *rig) do(ctx context.Context, key string) error {
	_, err := r.Do(ctx, request{key: key})
	return err
}

// doAll sends n requests for a key and returns the channel of their errors.
func (r *rig) doAll(ctx context.Context, n int, q request) <-chan error {
	answers := make(chan error, n)
	for range n {
		go func() { _, err := r.Do(ctx, q); answers <- err }()
	}
	return answers
}

// want receives n errors and reports those that are not the wanted one, which may be nil.
func want(t *testing.T, answers <-chan error, n int, wanted error) {
	t.Helper()
	for range n {
		if err := <-answers; !errors.Is(err, wanted) {
			t.Errorf("got %v, want %v", err, wanted)
		}
	}
}

// wantValue reports a counter that has another value.
func (r *rig) wantValue(t *testing.T, key string, wanted int64) {
	t.Helper()
	var n int64
	err := r.direct.GetContext(t.Context(), &n, `SELECT n FROM rig.counters WHERE key = $1`, key)
	if err != nil || n != wanted {
		t.Errorf("%s is %d (%v), want %d", key, n, err, wanted)
	}
}

// wantSlots reports another number of slots.
func (r *rig) wantSlots(t *testing.T, wanted int) {
	t.Helper()
	var n int
	if err := r.direct.GetContext(t.Context(), &n, `SELECT count(*) FROM rig.slots`); err != nil || n != wanted {
		t.Errorf("there are %d slots (%v), want %d", n, err, wanted)
	}
}

// wantLanes waits until so many keys have a lane.
func (r *rig) wantLanes(t *testing.T, n float64) {
	t.Helper()
	waittest.Eventually(t, "lanes", func() bool { return r.metric(t, "rowlock_coalesce_slow_keys") == n })
}

// wantQueue waits until so many requests are in the queue and the lanes.
func (r *rig) wantQueue(t *testing.T, n float64) {
	t.Helper()
	waittest.Eventually(t, "a queue", func() bool { return r.metric(t, "rowlock_coalesce_queue_length") == n })
}

// metric returns a series of the committer.
func (r *rig) metric(t *testing.T, name string) float64 {
	t.Helper()
	return apptest.Gathered(t, r.registry, name+`{coalescer="rig_add"}`)
}
