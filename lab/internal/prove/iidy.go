package prove

import (
	"context"
	"database/sql/driver"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	api "github.com/rowlock/rowlock/client/iidy"
	"github.com/rowlock/rowlock/lab/internal/fault"
	"github.com/rowlock/rowlock/lab/internal/history"
	"github.com/rowlock/rowlock/lab/internal/hostile"
	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/lab/internal/targets"
)

const (
	// activeLists are worked on at the same time.
	activeLists = 8
	// workLease is the shortest lease allowed, so that many run out in a window.
	workLease = time.Second
	// recentClaims limits the claims of a list that are worked on: the latest, most of them over.
	recentClaims = 6
)

// The signs of iidy's windows.
const (
	signLate     = "changes after the end of a lease"
	signHeldLate = "changes that waited beyond the end of their lease"
)

var _ = register(targets.Iidy, kind{
	open: newIidy, writes: itemWrites(), attack: attackIidy,
	citus: &onCitus{open: newIidy, writes: itemWrites()},
	changes: func(op history.Op) bool {
		in, _ := op.Input.(itemInput)
		return in.verb != itemPage
	},
	signs: map[string][]string{
		windowNone: {signLate}, windowHeld: {signHeldLate}, windowHostile: {string(fault.LockedKey), string(fault.Pages)},
		windowCitusReplies: {string(fault.CutWorkerCommit), resolved},
	},
	mutants: []Mutant{
		mutant("now", "now() for clock_timestamp() in a lease", windowHeld, lateChanges),
		mutant("latestore", "answers are stored after COMMIT", windowCommits, linearizable),
	},
})

// itemWrites returns parts of the statements that change items. Those that read a list have none of them.
func itemWrites() []string {
	return []string{"insert into iidy.lists", "update iidy.lists", "delete from iidy.lists"}
}

// listItems returns the items of every list: few, so that batches meet.
func listItems() []string { return []string{"a", "b", "c", "d"} }

// iidy works on attempt lists: single items, batches, pages, claims.
type iidy struct {
	*keys

	api *api.Client

	mu     sync.Mutex
	claims map[*key][]string // alive or not

	late          int // lists whose items were locked beyond the end of a lease
	lateSent      sync.WaitGroup
	refused, done int // changes that waited beyond the end of their lease
}

func newIidy(_ context.Context, s site) (clients, error) {
	client, err := api.New(s.url, targets.Once(s.client)...)
	w := &iidy{keys: newKeys(s, activeLists, nil), api: client, claims: map[*key][]string{}}
	return w, err
}

// step adds, increments or deletes one item or a batch, reads the list, claims what is
// free of it, or does something with a claim.
func (w *iidy) step(ctx context.Context, client int, random *rand.Rand) {
	list := w.pick(ctx, random)
	verbs := []itemVerb{itemAdd, itemAdd, itemIncrement, itemIncrement, itemDelete, itemPage, itemClaim, itemClaim}
	var in itemInput
	if random.IntN(5) == 0 {
		in.claim = w.claimOf(list, random)
		if in.claim != "" {
			verbs = []itemVerb{itemIncrement, itemIncrement, itemDelete, itemExtend, itemRelease}
		}
	}

	in.verb = verbs[random.IntN(len(verbs))]
	n := 1 + random.IntN(len(listItems()))
	switch in.verb {
	case itemAdd, itemIncrement, itemDelete:
		in.items = listItems()
		random.Shuffle(len(in.items), func(i, j int) { in.items[i], in.items[j] = in.items[j], in.items[i] })
		if random.IntN(2) == 0 {
			n = 1 // by group commit
		}
		in.items = in.items[:n]
	case itemClaim:
		in.count = n
	case itemPage, itemExtend, itemRelease:
	}

	w.work(ctx, client, list, in)
}

// claimOf picks a recent claim of the list, "" when there is none.
func (w *iidy) claimOf(list *key, random *rand.Rand) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	claims := w.claims[list]
	claims = claims[max(0, len(claims)-recentClaims):]
	if len(claims) == 0 {
		return ""
	}
	return claims[random.IntN(len(claims))]
}

// work sends an operation and records it for each of its items.
func (w *iidy) work(ctx context.Context, client int, list *key, in itemInput) targets.Outcome {
	op := w.send(client, "", in, func() (any, error) { return request(ctx, w.api.List(list.name), in) })
	w.note(list, op.Outcome)
	a, answered := op.Output.(itemAnswer)
	if a.ID != "" {
		w.mu.Lock()
		w.claims[list] = append(w.claims[list], a.ID)
		w.mu.Unlock()
	}

	items := in.items
	if len(items) == 0 {
		items = listItems()
	}
	for _, name := range items {
		op.Key = list.name + "/" + name
		if answered {
			op.Output = a.of(in, name, w.history)
		}
		w.history.Add(op)
	}
	return op.Outcome
}

// itemAnswer holds the answer to an operation: a number, entries, or a claim with its entries.
type itemAnswer struct {
	api.Claim

	n int64
}

// request sends the operation.
func request(ctx context.Context, list *api.List, in itemInput) (a itemAnswer, err error) {
	switch {
	case in.verb == itemAdd:
		a.n, err = list.Add(ctx, in.items...)
	case in.verb == itemIncrement && in.claim == "":
		a.n, err = list.Increment(ctx, in.items...)
	case in.verb == itemIncrement:
		a.n, err = list.IncrementClaimed(ctx, in.claim, in.items...)
	case in.verb == itemDelete && in.claim == "":
		a.n, err = list.Delete(ctx, in.items...)
	case in.verb == itemDelete:
		a.n, err = list.DeleteClaimed(ctx, in.claim, in.items...)
	case in.verb == itemPage:
		a.Entries, err = list.Page(ctx, "", 100)
	case in.verb == itemClaim:
		a.Claim, err = list.Claim(ctx, in.count, workLease)
	case in.verb == itemExtend:
		a.n, err = list.Extend(ctx, in.claim, workLease)
	case in.verb == itemRelease:
		a.n, err = list.Release(ctx, in.claim)
	}

	for _, entry := range a.Entries {
		if !slices.Contains(listItems(), entry.Item) {
			err = badAnswer("an item that was not added: " + entry.Item)
		}
	}
	return a, err
}

// of returns what the answer says about one item. A batch's number says nothing about a single item unless none or all
// items were changed.
func (a itemAnswer) of(in itemInput, name string, h *history.History) itemOutput {
	switch {
	case in.verb == itemPage || in.verb == itemClaim:
		i := slices.IndexFunc(a.Entries, func(e api.Entry) bool { return e.Item == name })
		if i < 0 {
			return itemOutput{n: absent, known: true}
		}
		return itemOutput{n: a.Entries[i].Attempts, known: true, claim: a.ID, until: h.At(a.Until)}
	case a.n == 0:
		return itemOutput{n: 0, known: true}
	case a.n == int64(len(in.items)):
		return itemOutput{n: 1, known: true}
	}
	return itemOutput{}
}

// probe reads an empty page.
func (w *iidy) probe(ctx context.Context) error {
	_, err := w.api.List("probe").Page(ctx, "", 1)
	return err
}

// settle reads every list.
func (w *iidy) settle(ctx context.Context) error {
	w.lateSent.Wait()
	return w.each(func(list *key) targets.Outcome { return w.work(ctx, settling, list, itemInput{verb: itemPage}) })
}

// check demands that every item is linearizable, and that no late change was applied.
func (w *iidy) check(ctx context.Context, f *findings) {
	wrong := f.count(ctx, `SELECT count(*) FROM iidy.lists
		WHERE attempts < 0 OR (claim IS NULL) <> (lease_until IS NULL)`)
	late := 0
	ends := map[string]time.Duration{} // of the leases, by claim
	for _, op := range f.ops {
		in, _ := op.Input.(itemInput)
		out, _ := op.Output.(itemOutput)
		if out.claim != "" {
			ends[out.claim] = out.until
		}
		if end, known := ends[in.claim]; known && op.Outcome == targets.OK && op.Call > end {
			late++
		}
	}

	f.histories(itemModel())
	f.answers()
	f.addf("rows", wrong == 0, "%d rows that no operation could have made", wrong)
	f.addf(lateChanges, w.done == 0,
		"%d touched nothing, %d were applied although their lease ended while they waited", w.refused, w.done)
	f.signs[signLate], f.signs[signHeldLate] = late, w.refused+w.done
	w.checkOutcomes(ctx, f)
}

// attackIidy has an item that is locked, a list with the longest pages allowed, and uploads of a normal client.
func attackIidy(ctx context.Context, v *victim, s site) error {
	client, err := api.New(s.url, targets.Once(s.client)...)
	if err != nil {
		return err
	}
	const path, text, item = "/iidy/v1/batch/lists/", "text/plain", "item"
	locked, large, crossed := s.prefix+"-locked", s.prefix+"-large", s.prefix+"-crossed"
	change, page := path+crossed, path+large+"?count=10000"
	v.Change, v.Begun = hostile.Post(change, text, "a\n", 0), hostile.Post(change, text, "a", missing)
	v.Upload = hostile.Post(change, text, "a", 1<<20)
	claim := hostile.Post(page+"&action=claim&lease=1s", text, "", 0)
	v.Large = append(slices.Repeat([]string{hostile.Get(page)}, 11), claim)
	v.Bad = []string{
		hostile.Post(path+"a%00b", text, "a\n", 0), hostile.Post(change, jsonType, `{"items":`, 0),
		hostile.Post(change, text, "a\x00b\n", 0), hostile.Get(change + "?count=10001"),
	}

	v.lock = func(ctx context.Context, tx *sqlx.Tx, hold fault.Hold) error {
		return hold(tx.ExecContext(ctx, `SELECT FROM iidy.lists WHERE list = $1 FOR UPDATE`, locked))
	}
	v.call = func(ctx context.Context) (int64, error) { return client.List(locked).Increment(ctx, item) }
	v.page = func(ctx context.Context) error {
		_, err := client.List(large).Page(ctx, "", 200)
		return err
	}

	const long = 3000 // more than 64 KiB of items
	items := make([]string, long)
	for i := range items {
		items[i] = fmt.Sprintf("an-item-of-some-length-%06d", i)
	}

	var lists atomic.Int64
	v.upload = func(ctx context.Context) error {
		added, err := client.List(fmt.Sprintf("%s-upload-%d", s.prefix, lists.Add(1))).Add(ctx, items...)
		if err == nil && added != long {
			err = badAnswer(fmt.Sprintf("%d of %d items were added", added, long))
		}
		return err
	}

	const of = ` FROM iidy.lists WHERE list = `
	v.stored, v.crossed = `SELECT attempts`+of+pq.QuoteLiteral(locked), `SELECT count(*)`+of+pq.QuoteLiteral(crossed)
	return local.Execute(ctx, s.db, fmt.Sprintf(`INSERT INTO iidy.lists (list, item)
		SELECT %s, %s UNION ALL SELECT %s, lpad(n::text, 1950, '0') FROM generate_series(1, 10000) n`,
		pq.QuoteLiteral(locked), pq.QuoteLiteral(item), pq.QuoteLiteral(large)))
}

// itemVerb says what is done to the items of a list.
type itemVerb string

// The verbs. From itemPage on they concern every item of the list.
const (
	itemAdd       itemVerb = "add"
	itemIncrement itemVerb = "increment"
	itemDelete    itemVerb = "delete"
	itemPage      itemVerb = "page"
	itemClaim     itemVerb = "claim"
	itemExtend    itemVerb = "extend"
	itemRelease   itemVerb = "release"
)

// itemInput describes an operation on some of a list's items.
type itemInput struct {
	verb  itemVerb
	items []string // none for all
	claim string   // that a change names, if any
	count int      // of items that a claim takes
}

// absent is the number of attempts of an item that is not there.
const absent = -1

// itemOutput holds what an answer says about one item: its attempts, by a page or by the
// claim that took it; 1 or 0 by a change.
type itemOutput struct {
	n     int64
	known bool          // false where a batch's number says nothing about a single item
	claim string        // that took the item
	until time.Duration // the end of its lease
}

// item holds the state of one item: its attempts and the claim that has it. The lease
// ends between low and high, which are equal where the answer to the claim was seen.
type item struct {
	attempts  int64
	claim     string
	low, high time.Duration
}

// itemModel returns the model of an iidy item that is absent at first; claims hold it for
// workLease. When a lease ends during an operation, the operation may find it alive or
// not, so two states may follow.
//
// The promise is one for each item, not for a list: a batch commits as a whole, but
// reaches its items one after the other, and may see what others commit meanwhile for
// one item and not for another (READ COMMITTED). So a batch is recorded for each of its
// items.
func itemModel() porcupine.Model { return history.NewModel(item{attempts: absent}, item.after) }

// after returns the states that may follow the operation.
func (s item) after(in itemInput, op history.Op) (after []item) {
	out, _ := op.Output.(itemOutput)
	switch op.Outcome {
	case targets.Refused:
		return []item{s}
	case targets.Unknown:
		out, op.Return = itemOutput{}, history.Never // it may take effect at any time
	case targets.OK, targets.NotApplied:
	}

	there := s.attempts != absent
	// allow adds a state that follows an answer of n.
	allow := func(possible bool, n int64, state item) {
		if possible && (!out.known || out.n == n) {
			after = append(after, state)
		}
	}

	switch in.verb {
	case itemPage:
		allow(true, s.attempts, s)
	case itemAdd:
		allow(!there, 1, item{})
		allow(there, 0, s)
	case itemClaim:
		free := there && (s.claim == "" || op.Return >= s.low-history.ClockSlack)
		switch {
		case out.claim != "":
			allow(free, s.attempts, item{s.attempts, out.claim, out.until, out.until})
		case out.known: // a claim passes over what is locked at the moment, so an item may be left without a cause
			after = append(after, s)
		default:
			allow(true, 0, s)
			allow(free, 0, item{s.attempts, fmt.Sprint("lost at ", op.Call), op.Call + workLease, history.Never})
		}
	case itemIncrement, itemDelete, itemExtend, itemRelease:
		mayReach, surelyReaches := there, there
		if in.claim != "" {
			holds := there && s.claim == in.claim
			mayReach = holds && op.Call-history.ClockSlack <= s.high
			surelyReaches = holds && op.Return < s.low-history.ClockSlack
		}
		allow(mayReach, 1, s.changed(in.verb, op))
		allow(!surelyReaches, 0, s)
	}
	return after
}

// changed returns the item after an operation that has reached it.
func (s item) changed(verb itemVerb, op history.Op) item {
	switch verb {
	case itemIncrement:
		s.attempts++
	case itemDelete:
		s = item{attempts: absent}
	case itemExtend:
		s.low, s.high = op.Call+workLease, history.Never
		if op.Return != history.Never {
			s.high = op.Return + workLease
		}
	case itemRelease:
		s.claim, s.low, s.high = "", 0, 0
	case itemAdd, itemPage, itemClaim:
	}
	return s
}

// lateChanges names a check.
const lateChanges = "late changes"

const (
	// lateItems are claimed together.
	lateItems = 9
	// lateBefore is the time before the end of their lease at which the first of their changes is sent.
	lateBefore = 120 * time.Millisecond
	// lateAfter is the time from the end of the lease until the items are unlocked. A try waits longer for a lock.
	lateAfter = history.ClockSlack + time.Millisecond
)

// lock locks the rows of a list that is worked on. At the end it claims the items of another list and changes them
// itself. Just before the lease ends, the holder sends changes, which wait for the lock. One that gets its row after
// the end of the lease must change nothing: it comes after this transaction's change, and that after the lease. A row
// that was locked and not changed could be taken as changed before the lock. The items are unlocked right after the end
// of the lease, while tries that began before it still wait.
func (w *iidy) lock(ctx context.Context, tx *sqlx.Tx, hold fault.Hold) error {
	_, err := tx.ExecContext(ctx, `SELECT FROM iidy.lists WHERE list = $1 ORDER BY item FOR UPDATE`, w.first())
	if err := hold(driver.RowsAffected(1), err); err != nil {
		return err
	}

	w.mu.Lock()
	w.late++
	name := fmt.Sprintf("%s-late-%d", w.prefix, w.late)
	w.mu.Unlock()
	list := w.api.List(name)
	items := make([]string, lateItems)
	for i := range items {
		items[i] = strconv.Itoa(i)
	}

	_, _ = list.Add(ctx, items...)
	claim, _ := list.Claim(ctx, lateItems, workLease)
	if len(claim.Entries) < lateItems { // after an error; the sign of late changes is missed then
		return nil
	}
	_, err = tx.ExecContext(ctx, `UPDATE iidy.lists SET attempts = attempts WHERE list = $1`, name)
	for i := range claim.Entries {
		w.lateSent.Go(func() { w.sendLate(context.WithoutCancel(ctx), list, i, claim) })
	}
	fault.Wait(ctx, time.Until(claim.Until)+lateAfter)
	return err
}

// sendLate sends a change of an item just before the end of its lease.
func (w *iidy) sendLate(ctx context.Context, list *api.List, i int, claim api.Claim) {
	change := list.IncrementClaimed
	if i%2 == 0 {
		change = list.DeleteClaimed
	}
	before := lateBefore * time.Duration(lateItems-i) / lateItems

	fault.Wait(ctx, time.Until(claim.Until)-before)
	n, err := change(ctx, claim.ID, claim.Entries[i].Item)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err != nil:
	case n > 0:
		w.done++
	default:
		w.refused++
	}
}
