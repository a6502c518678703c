package prove

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/lab/internal/fault"
	"github.com/rowlock/rowlock/lab/internal/history"
	"github.com/rowlock/rowlock/platform/sqldb"
)

// events is the workload of the events: make some with and without a value, look
// for them, count. The ids of all windows are one row, so the checks look at all.
type events struct {
	caller  *Caller
	history *history.History
	audited bool // by auditEvents; not on MariaDB

	mu    sync.Mutex
	ids   []int64 // that were acknowledged in this window
	count int64   // the most that was counted
}

func newEvents(c *Caller, h *history.History, _ string) Workload { //nolint:ireturn // one of kinds
	return &events{caller: c, history: h, audited: true}
}

func newMariaEvents(c *Caller, h *history.History, _ string) Workload { //nolint:ireturn // one of kinds
	return &events{caller: c, history: h}
}

// eventVerb is what is asked for.
type eventVerb string

const (
	eventSync  eventVerb = "sync"
	eventAsync eventVerb = "async"
	eventGet   eventVerb = "get"
	eventCount eventVerb = "count"
)

// eventInput is an operation; ID is for eventGet.
type eventInput struct {
	Verb eventVerb
	ID   int64
}

// eventOutput is what a client was told.
type eventOutput struct {
	ID    int64
	Value string
	Count int64
}

// Step makes an event, or looks for one that was acknowledged, or counts; now and
// then it makes many at once, for which the workers compete.
func (w *events) Step(ctx context.Context, client int, random *rand.Rand) {
	const crowd, oneIn = 20, 20
	if random.IntN(oneIn) > 0 {
		w.one(ctx, client, random)
		return
	}
	together(crowd, client, func(client int) { w.do(ctx, client, eventInput{Verb: eventAsync}) })
}

func (w *events) one(ctx context.Context, client int, random *rand.Rand) {
	in := eventInput{Verb: eventCount}
	switch random.IntN(5) {
	case 0, 1:
		in.Verb = eventSync
	case 2:
		in.Verb = eventAsync
	case 3:
		w.mu.Lock()
		if len(w.ids) > 0 {
			in = eventInput{eventGet, w.ids[random.IntN(len(w.ids))]}
		}
		w.mu.Unlock()
	default:
	}
	w.do(ctx, client, in)
}

func (w *events) do(ctx context.Context, client int, in eventInput) Reply {
	w.mu.Lock()
	least := w.count
	w.mu.Unlock()
	op := history.Op{Client: client, Key: "events", Input: in, Call: w.history.Now()}
	method, path := http.MethodGet, "/events"
	switch in.Verb {
	case eventSync:
		method = http.MethodPost
	case eventAsync:
		method, path = http.MethodPost, "/events/async"
	case eventGet:
		path = fmt.Sprintf("/events/%d", in.ID)
	case eventCount:
	}
	r := w.caller.Send(ctx, method, path, "", nil)
	op.Return, op.Outcome, op.Code = w.history.Now(), r.Outcome, r.Code
	if method == http.MethodGet && op.Outcome == history.Unknown {
		op.Outcome = history.NotApplied // a read changes nothing
	}
	if r.Outcome == history.OK {
		var doc struct {
			ID    int64   `json:"id"`
			Value *string `json:"value"`
			Count int64   `json:"count"`
		}
		if json.Unmarshal(r.Body, &doc) != nil || doc.ID == 0 && doc.Count < least {
			op.Code = badBody
		}
		out := eventOutput{ID: doc.ID, Count: doc.Count}
		if doc.Value != nil {
			out.Value = *doc.Value
		}
		op.Output = out
		w.note(in, out)
	}
	w.history.Add(op)
	return r
}

func (w *events) note(in eventInput, out eventOutput) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch in.Verb {
	case eventSync, eventAsync:
		w.ids = append(w.ids, out.ID)
	case eventCount:
		w.count = max(w.count, out.Count)
	case eventGet:
	}
}

// Probe counts.
func (w *events) Probe(ctx context.Context) error {
	r := w.caller.Send(ctx, http.MethodGet, "/events", "", nil)
	if r.Outcome == history.OK {
		return nil
	}
	return fmt.Errorf("the count is answered %d %s", r.Status, r.Code)
}

// settleLimit is what the workers may take for what is pending when the faults are over.
const settleLimit = 30 * time.Second

// Settle waits until the workers have given every event of the window a value,
// and looks at each.
func (w *events) Settle(ctx context.Context) error {
	w.mu.Lock()
	ids := w.ids
	w.mu.Unlock()
	for deadline := time.Now().Add(settleLimit); len(ids) > 0; {
		r := w.do(ctx, -1, eventInput{eventGet, ids[0]})
		var doc struct {
			Value *string `json:"value"`
		}
		if r.Outcome == history.OK && json.Unmarshal(r.Body, &doc) == nil && doc.Value != nil {
			ids = ids[1:]
			continue
		}
		if r.Outcome == history.Refused || time.Now().After(deadline) {
			return fmt.Errorf("event %d is answered %d %s and has no value", ids[0], r.Status, r.Code)
		}
		pause(ctx, 50*time.Millisecond)
	}
	return nil
}

// Lock locks the row of the ids.
func (w *events) Lock(context.Context) fault.Lock {
	return fault.Lock{Statement: `SELECT FROM events.status FOR UPDATE`}
}

// auditEvents records each time that an event is stored with a value, in the transaction
// that does it. A client that reads an id now and then would miss a value that is
// replaced within a millisecond.
func auditEvents(ctx context.Context, db *sqldb.DB) error {
	return db.InTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, `CREATE SCHEMA IF NOT EXISTS prove;
			CREATE TABLE IF NOT EXISTS prove.worked (id bigint NOT NULL);
			CREATE OR REPLACE FUNCTION prove.note() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = prove AS
				$$BEGIN INSERT INTO prove.worked (id) VALUES (NEW.id); RETURN NULL; END$$;
			CREATE OR REPLACE TRIGGER prove_worked AFTER INSERT ON events.events
				FOR EACH ROW WHEN (NEW.value IS NOT NULL) EXECUTE FUNCTION prove.note()`)
		return err //nolint:wrapcheck // InTx classifies it
	})
}

// Check demands that ids are given out once and without a gap, that what was
// acknowledged is there, and that a value never changes.
func (w *events) Check(ctx context.Context, db *sqldb.DB, _ string) (Findings, error) {
	ops := w.history.Ops()
	given := map[int64]int{}
	values := map[int64]string{}
	var doubled, lost, changed int
	for _, op := range ops {
		in, _ := op.Input.(eventInput)
		out, _ := op.Output.(eventOutput)
		if op.Outcome == history.OK && (in.Verb == eventSync || in.Verb == eventAsync) {
			given[out.ID]++
		}
		if in.Verb == eventGet && op.Outcome == history.Refused {
			lost++
		}
		if out.Value != "" {
			if before, known := values[out.ID]; known && before != out.Value {
				changed++
			}
			values[out.ID] = out.Value
		}
	}
	for _, times := range given {
		if times > 1 {
			doubled++
		}
	}
	var rows struct {
		All      int64 `db:"n"`
		Distinct int64 `db:"ids"`
		Lowest   int64 `db:"lowest"`
		Highest  int64 `db:"highest"`
		Status   int64 `db:"status"`
		Seeds    int64 `db:"seeds"`
	}
	err := db.GetContext(ctx, &rows, `SELECT count(*) AS n, count(DISTINCT id) AS ids, coalesce(min(id), 1) AS lowest,
		coalesce(max(id), 0) AS highest, (SELECT max(id) FROM events.status) AS status, (SELECT count(*) FROM events.status) AS seeds
		FROM events.events`)
	if err != nil {
		return Findings{}, fmt.Errorf("read the events: %w", err)
	}
	var again int64
	if w.audited {
		if err := db.GetContext(ctx, &again, `SELECT count(*) - count(DISTINCT id) FROM prove.worked`); err != nil {
			return Findings{}, fmt.Errorf("read the audit of the events: %w", err)
		}
	}
	gapless := rows.All == rows.Distinct && rows.Lowest == 1 && rows.Highest == rows.All && rows.Status == rows.All && rows.Seeds == 1
	return Findings{Checks: []Check{
		checkAnswers(ops),
		check("ids", gapless && doubled == 0, "%d events, %d ids, %d to %d, status %d; %d given out twice",
			rows.All, rows.Distinct, rows.Lowest, rows.Highest, rows.Status, doubled),
		check("found", lost == 0, "%d acknowledged and not found", lost),
		check("worked once", changed == 0 && again == 0, "%d values changed before a client's eyes, %d given a second time", changed, again),
	}}, nil
}
