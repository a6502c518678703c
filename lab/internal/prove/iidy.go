package prove

import (
	"context"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	rowlock "github.com/rowlock/rowlock/client"
	api "github.com/rowlock/rowlock/client/iidy"
	"github.com/rowlock/rowlock/lab/internal/history"
	"github.com/rowlock/rowlock/lab/internal/services"
)

const (
	// activeLists are worked on at the same time.
	activeLists = 8
	// listItems is how many items a list has: few, so that batches meet.
	listItems = 4
	// workLease is the shortest lease that there is, so that many run out in a window.
	workLease = time.Second
	// rememberedClaims are worked on: those of the last seconds, so that most are over.
	rememberedClaims = 48
)

// The signs of iidy's windows.
const (
	signClaimed  = "claims that took items"
	signLate     = "changes after the end of a lease"
	signHeldLate = "changes that waited beyond the end of their lease"
)

var _ = register(services.Iidy, kind{
	open: newIidy, writes: "iidy.lists",
	signs:   map[string][]string{windowNone: {signClaimed, signLate}, windowHeld: {signHeldLate}},
	mutants: []Mutant{mutant("bug_now", "now() for clock_timestamp() in a lease", windowHeld, lateChanges)},
})

// iidy works on attempt lists: single items, batches, pages, claims.
type iidy struct {
	site

	api     *api.Client
	lists   *keys
	waiting *lateClaims

	mu      sync.Mutex
	claims  []iidyClaim // the last ones, alive or not
	claimed int         // claims that took something
	late    int         // changes that were sent after their lease was over
}

// iidyClaim remembers a claim that took something, with its end as it was first answered.
type iidyClaim struct {
	api.Claim

	list *key
}

func newIidy(s site) (clients, error) { //nolint:ireturn // one of kinds
	client, err := api.New(s.url, rowlock.WithHTTPClient(s.client))
	return &iidy{
		site: s, api: client, lists: newKeys(s.prefix, activeLists, nil),
		waiting: &lateClaims{api: client, prefix: s.prefix},
	}, err
}

// step adds, increments or deletes one item or a batch, reads the list, claims what is
// free of it, or does something with a claim.
func (w *iidy) step(ctx context.Context, client int, random *rand.Rand) {
	list := w.lists.pick(ctx, random)
	in := history.ItemInput{Items: uint8(1 + random.IntN(1<<listItems-1))}
	if random.IntN(2) == 0 {
		in.Items = 1 << random.IntN(listItems) // a single item, by group commit
	}
	verbs := []history.ItemVerb{
		history.ItemAdd, history.ItemAdd, history.ItemIncrement, history.ItemIncrement, history.ItemDelete,
		history.ItemPage, history.ItemClaim, history.ItemClaim,
	}
	if random.IntN(5) == 0 {
		if c, ok := w.claim(random); ok {
			list, in.Claim = c.list, c.ID
			verbs = []history.ItemVerb{
				history.ItemIncrement, history.ItemIncrement, history.ItemDelete, history.ItemExtend, history.ItemRelease,
			}
		}
	}
	in.Verb = verbs[random.IntN(len(verbs))]
	if in.Verb.OfList() {
		in.Items = 0
	}
	if in.Verb == history.ItemClaim {
		in.Count = 1 + random.IntN(listItems)
	}
	w.do(ctx, client, list, in)
}

// claim picks a remembered claim whose list is still worked on.
func (w *iidy) claim(random *rand.Rand) (iidyClaim, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.claims) == 0 {
		return iidyClaim{}, false
	}
	c := w.claims[random.IntN(len(w.claims))]
	return c, w.lists.use(c.list)
}

// do sends an operation and records it for each of its items.
func (w *iidy) do(ctx context.Context, client int, list *key, in history.ItemInput) services.Outcome {
	op := w.send(client, "", in, func() (any, error) { return request(ctx, w.api.List(list.name), in) })
	w.lists.note(list, op.Outcome)
	a, answered := op.Output.(itemAnswer)
	w.noteClaim(list, in, op, a)
	for i := range listItems {
		if in.Verb.OfList() || in.Items&(1<<i) != 0 {
			op.Key = list.name + "/" + itemName(i)
			if answered {
				op.Output = a.of(in, i, w.history)
			}
			w.history.Add(op)
		}
	}
	return op.Outcome
}

// itemAnswer holds the answer to an operation: a number, entries, or a claim with its entries.
type itemAnswer struct {
	api.Claim

	n int64
}

// request sends the operation.
func request(ctx context.Context, list *api.List, in history.ItemInput) (a itemAnswer, err error) {
	var items []string
	for i := range listItems {
		if in.Items&(1<<i) != 0 {
			items = append(items, itemName(i))
		}
	}
	increment, remove := list.Increment, list.Delete
	if in.Claim != "" {
		increment = func(ctx context.Context, items ...string) (int64, error) {
			return list.IncrementClaimed(ctx, in.Claim, items...)
		}
		remove = func(ctx context.Context, items ...string) (int64, error) {
			return list.DeleteClaimed(ctx, in.Claim, items...)
		}
	}
	switch in.Verb {
	case history.ItemAdd:
		a.n, err = list.Add(ctx, items...)
	case history.ItemIncrement:
		a.n, err = increment(ctx, items...)
	case history.ItemDelete:
		a.n, err = remove(ctx, items...)
	case history.ItemPage:
		a.Entries, err = list.Page(ctx, "", 100)
	case history.ItemClaim:
		a.Claim, err = list.Claim(ctx, in.Count, workLease)
	case history.ItemExtend:
		a.n, err = list.Extend(ctx, in.Claim, workLease)
	case history.ItemRelease:
		a.n, err = list.Release(ctx, in.Claim)
	}
	for _, entry := range a.Entries {
		if !slices.Contains([]string{"a", "b", "c", "d"}, entry.Item) {
			err = badAnswer("an item that was not added: " + entry.Item)
		}
	}
	return a, err
}

func itemName(i int) string { return string(rune('a' + i)) }

// of returns what the answer says about one item. A batch's number says nothing about a
// single item unless it is that of none or of all.
func (a itemAnswer) of(in history.ItemInput, item int, h *history.History) history.ItemOutput {
	if in.Verb == history.ItemPage || in.Verb == history.ItemClaim {
		i := slices.IndexFunc(a.Entries, func(e api.Entry) bool { return e.Item == itemName(item) })
		if i < 0 {
			return history.ItemOutput{N: history.Absent, Known: true}
		}
		return history.ItemOutput{N: a.Entries[i].Attempts, Known: true, Claim: a.ID, Until: h.At(a.Until)}
	}
	switch {
	case a.n == 0:
		return history.ItemOutput{N: 0, Known: true}
	case a.n == int64(bits.OnesCount8(in.Items)) && !in.Verb.OfList():
		return history.ItemOutput{N: 1, Known: true}
	}
	return history.ItemOutput{}
}

// noteClaim remembers a claim that took something, and counts late changes.
func (w *iidy) noteClaim(list *key, in history.ItemInput, op history.Op, a itemAnswer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a.ID != "" {
		w.claimed++
		w.claims = append(w.claims, iidyClaim{a.Claim, list})
		w.claims = w.claims[max(0, len(w.claims)-rememberedClaims):]
	}
	for _, c := range w.claims {
		if c.ID == in.Claim && op.Outcome == history.OK && op.Call > w.history.At(c.Until) {
			w.late++
		}
	}
}

// probe reads an empty page.
func (w *iidy) probe(ctx context.Context) error {
	_, err := w.api.List("probe").Page(ctx, "", 1)
	return err
}

// settle reads every list.
func (w *iidy) settle(ctx context.Context) error {
	w.waiting.sent.Wait()
	return w.lists.each(func(list *key) services.Outcome {
		return w.do(ctx, -1, list, history.ItemInput{Verb: history.ItemPage})
	})
}

// check demands that every item is linearizable, and that no late change was applied.
func (w *iidy) check(ctx context.Context, f *findings) {
	wrong := f.count(ctx, `SELECT count(*) FROM iidy.lists
		WHERE attempts < 0 OR (claim IS NULL) <> (lease_until IS NULL)`)
	batches := 0
	for _, op := range f.ops {
		if in, _ := op.Input.(history.ItemInput); bits.OnesCount8(in.Items) > 1 && op.Outcome == history.OK {
			batches++
		}
	}
	refused, applied := w.waiting.count()
	f.histories(history.Items(workLease))
	f.answers(history.Refused)
	f.addf("rows", wrong == 0, "%d rows that no operation could have made; %d batches succeeded", wrong, batches)
	f.addf(lateChanges, applied == 0,
		"%d touched nothing, %d were applied although their lease ended while they waited", refused, applied)
	w.mu.Lock()
	defer w.mu.Unlock()
	f.signs[signClaimed], f.signs[signLate], f.signs[signHeldLate] = w.claimed, w.late, refused+applied
}
