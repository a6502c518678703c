package prove

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"
	"golang.org/x/sync/errgroup"

	api "github.com/rowlock/rowlock/client/events"
	"github.com/rowlock/rowlock/lab/internal/fault"
	"github.com/rowlock/rowlock/lab/internal/history"
	"github.com/rowlock/rowlock/lab/internal/hostile"
	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/lab/internal/targets"
	"github.com/rowlock/rowlock/platform/sqldb"
)

// EventsOnMariaDB names events on their second engine.
const EventsOnMariaDB = targets.Events + "-mariadb"

// eventsInFlight lets a crowd wait for the id row, whose waiters may have a sixth of it.
const eventsInFlight = 144

var (
	_ = register(EventsOnMariaDB, kind{open: newEvents, inFlight: eventsInFlight, changes: addsEvent})
	_ = register(targets.Events, kind{
		open: newEvents, writes: []string{"update events.status"}, prepare: auditEvents, attack: attackEvents,
		inFlight: eventsInFlight, changes: addsEvent,
		mutants: []Mutant{
			mutant("sequence", "ids given out before the insert, as by a sequence", windowKill, "ids"),
			mutant("finish", "finish what was claimed without value IS NULL", windowBackends, "worked once"),
			mutant("slotread", "a slot is read without writing", windowReplies, "stored once", "ids"),
			mutant("untaken", "a group is sent again without taking the lost attempt", windowReplies, "stored once", "ids"),
		},
	})
)

// addsEvent reports whether the operation adds an event.
func addsEvent(op history.Op) bool { return op.Key == "add" }

// events adds events with and without a value, reads and counts them. The ids of all
// windows come from one row, so the checks look at all of them.
type events struct {
	site

	api    *api.Client
	before int // events that there were before

	mu    sync.Mutex
	ids   []int64 // that were acknowledged in this window
	count int64   // the most that was answered
}

func newEvents(ctx context.Context, s site) (clients, error) {
	client, err := api.New(s.url, targets.Once(s.client)...)
	w := &events{site: s, api: client}
	return w, errors.Join(err, s.db.GetContext(ctx, &w.before, `SELECT max(id) FROM events.status`))
}

// step adds an event, or reads one that was acknowledged, or counts; now and then it adds
// many at once, for which the workers compete.
func (w *events) step(ctx context.Context, client int, random *rand.Rand) {
	const crowd, oneIn = 20, 20
	if random.IntN(oneIn) == 0 {
		together(crowd, client, func(client int) { w.add(ctx, client, false) })
		return
	}

	switch random.IntN(5) {
	case 0, 1:
		w.add(ctx, client, true)
	case 2:
		w.add(ctx, client, false)
	case 3:
		w.mu.Lock()
		ids := w.ids
		w.mu.Unlock()
		if len(ids) > 0 {
			w.get(ctx, client, ids[random.IntN(len(ids))])
		}
	default:
		w.countAll(ctx, client)
	}
}

// add adds an event, with its value at once or left to the workers.
func (w *events) add(ctx context.Context, client int, now bool) {
	w.record(client, "add", "", func() (_ any, err error) {
		var e api.Event
		if now {
			e, err = w.api.Create(ctx)
		} else {
			e.ID, err = w.api.CreateAsync(ctx)
		}
		if err == nil && e.ID == 0 {
			err = badAnswer("an event without an id")
		}
		if err == nil {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.ids = append(w.ids, e.ID)
		}
		return e, err
	})
}

func (w *events) get(ctx context.Context, client int, id int64) history.Op {
	return w.record(client, "get", "", func() (any, error) { return w.api.Get(ctx, id) })
}

// countAll counts the events, which never become fewer.
func (w *events) countAll(ctx context.Context, client int) {
	w.mu.Lock()
	least := w.count
	w.mu.Unlock()
	w.record(client, "count", "", func() (any, error) {
		n, err := w.api.Count(ctx)
		if err == nil && n < least {
			err = badAnswer(fmt.Sprintf("%d events after %d", n, least))
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.count = max(w.count, n)
		return nil, err
	})
}

// probe counts.
func (w *events) probe(ctx context.Context) error {
	_, err := w.api.Count(ctx)
	return err
}

// settleTimeout bounds what the workers may take for what is pending when the faults are over.
const settleTimeout = 30 * time.Second

// settle waits until the workers have given every event of the window a value. The events are asked for together, as
// there are thousands.
func (w *events) settle(ctx context.Context) error {
	w.mu.Lock()
	ids := w.ids
	w.mu.Unlock()
	const atOnce = 16
	var all errgroup.Group
	all.SetLimit(atOnce)
	deadline := time.Now().Add(settleTimeout)
	for _, id := range ids {
		all.Go(func() error { return w.settleEvent(ctx, id, deadline) })
	}
	return all.Wait()
}

func (w *events) settleEvent(ctx context.Context, id int64, deadline time.Time) error {
	for {
		op := w.get(ctx, settling, id)
		if e, _ := op.Output.(api.Event); op.Outcome == targets.OK && !e.Pending() {
			return nil
		}
		if op.Outcome == targets.Refused || time.Now().After(deadline) {
			return fmt.Errorf("event %d is answered %s and has no value", id, op.Outcome)
		}
		fault.Wait(ctx, 50*time.Millisecond)
	}
}

// lock locks the row of the ids.
func (w *events) lock(ctx context.Context, tx *sqlx.Tx, hold fault.Hold) error {
	return hold(tx.ExecContext(ctx, `SELECT FROM events.status FOR UPDATE`))
}

// attackEvents has no key that is locked: every event needs the one row of status.
func attackEvents(_ context.Context, v *victim, _ site) error {
	const path, async = "/events", "/events/async"
	v.Change, v.Begun = hostile.Post(path, jsonType, "", 0), hostile.Post(path, jsonType, "{", missing)
	v.Upload = hostile.Post(async, jsonType, "", longBody)
	v.Large = []string{hostile.Get("/openapi.json")}
	v.Bad = []string{hostile.Get(path + "/a%00b"), hostile.Get(path + "/-1")}
	return nil
}

// auditEvents records each time that an event is stored with a value, in the transaction
// that does it. A client that reads an id now and then would miss a value that is
// replaced within a millisecond.
func auditEvents(ctx context.Context, db *sqldb.DB) error {
	return local.Execute(ctx, db, `CREATE SCHEMA IF NOT EXISTS prove;
		CREATE TABLE IF NOT EXISTS prove.worked (id bigint NOT NULL);
		CREATE OR REPLACE FUNCTION prove.note() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = prove AS
			$$BEGIN INSERT INTO prove.worked (id) VALUES (NEW.id); RETURN NULL; END$$;
		CREATE OR REPLACE TRIGGER prove_worked AFTER INSERT ON events.events
			FOR EACH ROW WHEN (NEW.value IS NOT NULL) EXECUTE FUNCTION prove.note()`)
}

// check demands that ids are given once and without a gap, that what was acknowledged is
// found, and that a value never changes.
func (w *events) check(ctx context.Context, f *findings) {
	var changed, again int
	values := map[int64]string{}
	for _, op := range f.ops {
		if e, _ := op.Output.(api.Event); e.Value != "" {
			if before, known := values[e.ID]; known && before != e.Value {
				changed++
			}
			values[e.ID] = e.Value
		}
	}

	if !w.maria {
		again = f.count(ctx, `SELECT count(*) - count(DISTINCT id) FROM prove.worked`)
	}
	doubled := len(w.ids) - len(slices.Compact(slices.Sorted(slices.Values(w.ids))))
	var rows struct{ N, IDs, Lowest, Highest, Status, Seeds int }
	f.get(ctx, &rows, `SELECT count(*) AS n, count(DISTINCT id) AS ids, coalesce(min(id), 1) AS lowest,
		coalesce(max(id), 0) AS highest, (SELECT max(id) FROM events.status) AS status,
		(SELECT count(*) FROM events.status) AS seeds
		FROM events.events`)

	gapless := rows.N == rows.IDs && rows.Lowest == 1 && rows.Highest == rows.N && rows.Status == rows.N && rows.Seeds == 1
	f.answers() // an event that was acknowledged and is not found
	f.addf("ids", gapless && doubled == 0, "%d events, %d ids, %d to %d, status %d; %d given twice",
		rows.N, rows.IDs, rows.Lowest, rows.Highest, rows.Status, doubled)
	w.checkStored(f, rows.N-w.before)
	f.addf("worked once", changed == 0 && again == 0,
		"%d values changed between two reads, %d given a second time", changed, again)
	if !w.maria { // MySQL proves no outcome
		w.checkOutcomes(ctx, f)
	}
}

// checkStored demands that every acknowledged event was added, and that no request was applied twice: what was added
// beyond them is what callers do not know of. Attackers add events as well, and a standby that lagged may lack some.
func (w *events) checkStored(f *findings, added int) {
	if w.window == windowHostile || w.window == windowLossy {
		return
	}
	acknowledged, doubtful := len(w.ids), 0
	for _, op := range f.ops {
		if addsEvent(op) && op.Outcome == targets.Unknown {
			doubtful++
		}
	}
	f.addf("stored once", acknowledged <= added && added <= acknowledged+doubtful,
		"%d events were added, %d were acknowledged, of %d it is not known", added, acknowledged, doubtful)
}
