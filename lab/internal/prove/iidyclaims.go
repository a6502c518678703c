package prove

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/rowlock/rowlock/lab/internal/fault"
	"github.com/rowlock/rowlock/lab/internal/history"
)

// The signs of iidy's windows, and a check.
const (
	signClaimed  = "claims that took items"
	signLate     = "changes after the end of a lease"
	lateChanges  = "late changes"
	signHeldLate = "changes that waited beyond the end of their lease"
)

const (
	// workLease is the shortest lease that there is, so that many run out in a window.
	workLease = time.Second
	// rememberedClaims are worked on: those of the last seconds, so that most are over.
	rememberedClaims = 48
)

// iidyClaimed is a claim that took something.
type iidyClaimed struct {
	list  *key
	id    string
	until time.Time // as it was first answered
}

// iidyTaken is the answer to a claim.
type iidyTaken struct {
	list  iidyList
	claim string // "" when nothing was taken
	until time.Time
}

// noteClaim remembers a claim that took something, and counts late changes.
func (w *iidy) noteClaim(list *key, in history.ItemInput, op history.Op, answer any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if taken, ok := answer.(iidyTaken); ok && taken.claim != "" {
		w.claimed++
		w.claims = append(w.claims, iidyClaimed{list, taken.claim, taken.until})
		w.claims = w.claims[max(0, len(w.claims)-rememberedClaims):]
	}
	if in.Claim == "" || op.Outcome != history.OK {
		return
	}
	for _, c := range w.claims {
		if c.id == in.Claim && op.Call > w.history.At(c.until) {
			w.late++
		}
	}
}

// claim picks a remembered claim whose list is still worked on.
func (w *iidy) claim(random *rand.Rand) (iidyClaimed, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.claims) == 0 {
		return iidyClaimed{}, false
	}
	c := w.claims[random.IntN(len(w.claims))]
	return c, w.lists.use(c.list)
}

// lateClaims is a list of its own. A stranger's transaction changes its items while
// each is leased to a claim of its own; the leases end one after the other, and just
// before, the claim's holder sends a change, which has to wait. What gets its row
// when the lease is over must change nothing: it comes after the stranger's change,
// and that came after the lease.
type lateClaims struct {
	caller *Caller
	prefix string

	mu    sync.Mutex
	holds []*lateHold
	sent  sync.WaitGroup
}

// lateHold is one time that a stranger holds the list.
type lateHold struct {
	locked, released time.Time
	changes          []lateChange
}

type lateChange struct {
	until, call time.Time
	outcome     history.Outcome
	n           int64
}

const (
	// The leases end from the shortest one on, at this distance.
	lateItems = 24
	lateEvery = 200 * time.Millisecond
	// lateBefore is how long before its lease's end a change is sent.
	lateBefore = 250 * time.Millisecond
)

// prepare fills a list and claims its items; the changes are sent when it is locked.
func (l *lateClaims) prepare(ctx context.Context) (list string, h *lateHold, send func()) {
	l.mu.Lock()
	h = &lateHold{}
	l.holds = append(l.holds, h)
	list = fmt.Sprintf("%s-late-%d", l.prefix, len(l.holds))
	l.mu.Unlock()
	items := make([]string, lateItems)
	for i := range items {
		items[i] = fmt.Sprintf(`"%03d"`, i)
	}
	if r := l.send(ctx, http.MethodPost, list, "", `{"items":[`+strings.Join(items, ",")+`]}`); r.Outcome != history.OK {
		return list, h, func() {}
	}
	type leased struct {
		Claim   string    `json:"claim"`
		Until   time.Time `json:"lease_until"`
		Entries []struct {
			Item string `json:"item"`
		} `json:"listentries"`
	}
	all := make([]leased, lateItems)
	var claims sync.WaitGroup
	for i := range all {
		claims.Go(func() {
			lease := workLease + time.Duration(i)*lateEvery
			r := l.send(ctx, http.MethodPost, list, fmt.Sprintf("?action=claim&count=1&lease=%dms", lease.Milliseconds()), "")
			if r.Outcome != history.OK || json.Unmarshal(r.Body, &all[i]) != nil {
				all[i] = leased{}
			}
		})
	}
	claims.Wait()
	return list, h, func() {
		for i, one := range all {
			if len(one.Entries) != 1 {
				continue
			}
			l.sent.Go(func() {
				if wait := time.Until(one.Until) - lateBefore; wait > 0 && pause(ctx, wait) {
					l.change(context.WithoutCancel(ctx), h, list, i%2 == 0, one.Claim, one.Entries[0].Item, one.Until)
				}
			})
		}
	}
}

// change sends one late change.
func (l *lateClaims) change(ctx context.Context, h *lateHold, list string, remove bool, claim, item string, until time.Time) {
	method, query := http.MethodPost, "?action=increment&claim="
	if remove {
		method, query = http.MethodDelete, "?claim="
	}
	c := lateChange{until: until, call: time.Now()}
	r := l.send(ctx, method, list, query+claim, fmt.Sprintf(`{"items":[%q]}`, item))
	var answer map[string]int64
	if c.outcome = r.Outcome; r.Outcome == history.OK && json.Unmarshal(r.Body, &answer) == nil {
		c.n = answer["incremented"] + answer["deleted"]
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	h.changes = append(h.changes, c)
}

func (l *lateClaims) send(ctx context.Context, method, list, query, body string) Reply {
	return l.caller.Send(ctx, method, "/iidy/v1/batch/lists/"+list+query, body, wantJSON())
}

// waited are the changes that were sent while the list was held and whose lease was
// over before it was let go.
func (l *lateClaims) waited() (refused, applied int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.holds {
		for _, c := range h.changes {
			if c.outcome != history.OK || h.locked.IsZero() || c.call.Before(h.locked) || !c.until.Add(history.ClockSlack).Before(h.released) {
				continue
			}
			if c.n > 0 {
				applied++
			} else {
				refused++
			}
		}
	}
	return refused, applied
}

// Lock locks the rows of a list that is worked on, and changes those of a list of claims.
func (w *iidy) Lock(ctx context.Context) fault.Lock {
	list, h, send := w.holding.prepare(ctx)
	stamp := func(at *time.Time) {
		w.holding.mu.Lock()
		defer w.holding.mu.Unlock()
		*at = time.Now()
	}
	return fault.Lock{
		Statement: fmt.Sprintf(`SELECT FROM iidy.lists WHERE list = '%s' ORDER BY item FOR UPDATE;
			UPDATE iidy.lists SET attempts = attempts WHERE list = '%s'`, w.lists.first(), list),
		Locked: func() {
			stamp(&h.locked)
			send()
		},
		Unlocking: func() { stamp(&h.released) },
		Commit:    true,
	}
}
