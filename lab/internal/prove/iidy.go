package prove

import (
	"context"
	"encoding/json"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/rowlock/rowlock/lab/internal/history"
	"github.com/rowlock/rowlock/platform/sqldb"
)

// listItems is how many items a list of the workload has: few, so that batches meet.
const listItems = 4

// activeLists are worked on at the same time.
const activeLists = 8

// iidy is the workload of the attempt lists: single items, batches, pages. The
// promise is one for each item: a batch commits as a whole, but it comes to its
// items one after the other, and what others commit meanwhile it sees for one item
// and not for another (READ COMMITTED). So the history of a batch is that of each
// of its items.
type iidy struct {
	caller  *Caller
	history *history.History
	lists   *keys
	holding *lateClaims

	mu      sync.Mutex
	claims  []iidyClaimed // the last ones, alive or not
	claimed int           // claims that took something
	late    int           // changes that were sent after their lease was over
}

func newIidy(c *Caller, h *history.History, prefix string) Workload { //nolint:ireturn // one of kinds
	return &iidy{caller: c, history: h, lists: newKeys(prefix, activeLists), holding: &lateClaims{caller: c, prefix: prefix}}
}

// iidyList is what a page shows: the attempts of each item, history.Absent for one that is
// not there.
type iidyList [listItems]int64

// Step adds, increments or deletes one item or a batch, reads the list, claims what
// is free of it, or does something with a claim.
func (w *iidy) Step(ctx context.Context, client int, random *rand.Rand) {
	list := w.lists.pick(random)
	in := history.ItemInput{Items: uint8(1 + random.IntN(1<<listItems-1))}
	if random.IntN(2) == 0 {
		in.Items = 1 << random.IntN(listItems) // a single item, by group commit
	}
	switch random.IntN(10) {
	case 0, 1:
		in.Verb = history.ItemAdd
	case 2, 3:
		in.Verb = history.ItemIncrement
	case 4:
		in.Verb = history.ItemDelete
	case 5:
		in = history.ItemInput{Verb: history.ItemPage}
	case 6, 7:
		in = history.ItemInput{Verb: history.ItemClaim, Count: 1 + random.IntN(listItems)}
	default:
		c, ok := w.claim(random)
		if !ok {
			in.Verb = history.ItemAdd
			break
		}
		list, in.Claim = c.list, c.id
		in.Verb = []history.ItemVerb{history.ItemIncrement, history.ItemIncrement, history.ItemDelete, history.ItemExtend, history.ItemRelease}[random.IntN(5)]
		if in.Verb.OfList() {
			in.Items = 0
		}
	}
	w.do(ctx, client, list, in)
}

func (w *iidy) do(ctx context.Context, client int, list *key, in history.ItemInput) Reply {
	op := history.Op{Client: client, Input: in, Call: w.history.Now()}
	method, path, body := itemRequest(in, list.name)
	r := w.caller.Send(ctx, method, path, body, wantJSON())
	op.Return, op.Outcome, op.Code = w.history.Now(), r.Outcome, r.Code
	var answer any
	if r.Outcome == history.OK {
		var err error
		if answer, err = readItems(in, r.Body); err != nil {
			op.Outcome, op.Code = history.Unknown, badBody
		}
	}
	w.noteClaim(list, in, op, answer)
	if in.Verb == history.ItemPage && op.Outcome == history.Unknown {
		op.Outcome = history.NotApplied // a read changes nothing
	}
	w.lists.note(list, op.Outcome)
	for i := range listItems {
		if in.Verb.OfList() || in.Items&(1<<i) != 0 {
			op.Key, op.Output = list.name+"/"+itemName(i), itemOutput(in, answer, i, w.history.At)
			w.history.Add(op)
		}
	}
	return r
}

// wantJSON is the header that iidy needs to answer JSON.
func wantJSON() map[string]string { return map[string]string{"Accept": "application/json"} }

// told is what the answer says of one item.
func itemOutput(in history.ItemInput, answer any, item int, at func(time.Time) time.Duration) any {
	switch answer := answer.(type) {
	case iidyList:
		return history.ItemOutput{N: answer[item], Known: true}
	case iidyTaken:
		out := history.ItemOutput{N: answer.list[item], Known: true}
		if out.N != history.Absent {
			out.Claim, out.Until = answer.claim, at(answer.until)
		}
		return out
	case int64:
		switch all := int64(bits.OnesCount8(in.Items)); {
		case answer == 0:
			return history.ItemOutput{N: 0, Known: true}
		case answer == all && !in.Verb.OfList():
			return history.ItemOutput{N: 1, Known: true}
		}
		return history.ItemOutput{}
	}
	return nil
}

// request is the operation as the API has it: by the item's own path for one, by a
// batch for several.
func itemRequest(in history.ItemInput, list string) (method, path, body string) {
	const lists, batch = "/iidy/v1/lists/", "/iidy/v1/batch/lists/"
	if in.Verb == history.ItemPage {
		return http.MethodGet, batch + list + "?count=100", ""
	}
	method, query := http.MethodPost, ""
	switch in.Verb {
	case history.ItemClaim:
		return method, batch + list + fmt.Sprintf("?action=claim&count=%d&lease=%s", in.Count, workLease), ""
	case history.ItemExtend:
		return method, batch + list + fmt.Sprintf("?action=extend&claim=%s&lease=%s", in.Claim, workLease), ""
	case history.ItemRelease:
		return method, batch + list + "?action=release&claim=" + in.Claim, ""
	case history.ItemDelete:
		method = http.MethodDelete
		if in.Claim != "" {
			query = "?claim=" + in.Claim
		}
	case history.ItemIncrement:
		query = "?action=increment"
		if in.Claim != "" {
			query += "&claim=" + in.Claim
		}
	case history.ItemAdd, history.ItemPage:
	}
	var names []string
	for i := range listItems {
		if in.Items&(1<<i) != 0 {
			names = append(names, itemName(i))
		}
	}
	if len(names) == 1 && in.Claim == "" {
		return method, lists + list + "/" + names[0] + query, ""
	}
	return method, batch + list + query, `{"items":["` + strings.Join(names, `","`) + `"]}`
}

func itemName(i int) string { return string(rune('a' + i)) }

// read returns the number that a change answers with, the list that a page shows, or
// what a claim took.
func readItems(in history.ItemInput, body []byte) (any, error) {
	var doc struct {
		Added       *int64     `json:"added"`
		Incremented *int64     `json:"incremented"`
		Deleted     *int64     `json:"deleted"`
		Extended    *int64     `json:"extended"`
		Released    *int64     `json:"released"`
		Claim       string     `json:"claim"`
		Until       *time.Time `json:"lease_until"`
		Entries     *[]struct {
			Item     string `json:"item"`
			Attempts int64  `json:"attempts"`
		} `json:"listentries"`
	}
	if in.Verb == history.ItemClaim {
		body = []byte(strings.Replace(string(body), `"lease_until":""`, `"lease_until":null`, 1)) // of a claim that took nothing
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		return nil, fmt.Errorf("the body %q: %w", body, err)
	}
	if (in.Verb == history.ItemPage || in.Verb == history.ItemClaim) && doc.Entries != nil {
		list := emptyList()
		for _, entry := range *doc.Entries {
			if len(entry.Item) != 1 || entry.Item[0] < 'a' || entry.Item[0] >= 'a'+listItems {
				return nil, fmt.Errorf("the page has an item %q", entry.Item)
			}
			list[entry.Item[0]-'a'] = entry.Attempts
		}
		switch {
		case in.Verb == history.ItemPage:
			return list, nil
		case list == emptyList():
			return iidyTaken{list: list}, nil
		case doc.Until != nil && doc.Claim != "":
			return iidyTaken{list, doc.Claim, *doc.Until}, nil
		}
	}
	n := map[history.ItemVerb]*int64{
		history.ItemAdd: doc.Added, history.ItemIncrement: doc.Incremented, history.ItemDelete: doc.Deleted, history.ItemExtend: doc.Extended, history.ItemRelease: doc.Released,
	}[in.Verb]
	if n == nil {
		return nil, fmt.Errorf("the body %q is no answer to %s", body, in.Verb)
	}
	return *n, nil
}

func emptyList() iidyList {
	return iidyList{history.Absent, history.Absent, history.Absent, history.Absent}
}

// Probe asks for an empty page.
func (w *iidy) Probe(ctx context.Context) error {
	r := w.caller.Send(ctx, http.MethodGet, "/iidy/v1/batch/lists/probe?count=1", "", wantJSON())
	if r.Outcome == history.OK {
		return nil
	}
	return fmt.Errorf("a page is answered %d %s", r.Status, r.Code)
}

// Settle reads every list.
func (w *iidy) Settle(ctx context.Context) error {
	w.holding.sent.Wait()
	for _, list := range w.lists.all() {
		if r := w.do(ctx, -1, list, history.ItemInput{Verb: history.ItemPage}); r.Outcome != history.OK {
			return fmt.Errorf("the last page of %s is answered %d %s", list.name, r.Status, r.Code)
		}
	}
	return nil
}

// Check demands that every item is linearizable.
func (w *iidy) Check(ctx context.Context, db *sqldb.DB, pictures string) (Findings, error) {
	ops := w.history.Ops()
	var wrong int
	err := db.GetContext(ctx, &wrong, `SELECT count(*) FROM iidy.lists WHERE attempts < 0 OR (claim IS NULL) <> (lease_until IS NULL)`)
	if err != nil {
		return Findings{}, fmt.Errorf("read the lists: %w", err)
	}
	batches := 0
	for _, op := range ops {
		if in, ok := op.Input.(history.ItemInput); ok && bits.OnesCount8(in.Items) > 1 && op.Outcome == history.OK {
			batches++
		}
	}
	refused, applied := w.holding.waited()
	w.mu.Lock()
	defer w.mu.Unlock()
	return Findings{Checks: []Check{
		checkHistory(history.Items(workLease), ops, pictures),
		checkAnswers(ops, history.Refused),
		check("rows", wrong == 0, "%d rows that no operation could have made; %d batches succeeded", wrong, batches),
		check(lateChanges, applied == 0,
			"%d touched nothing, %d were applied although their lease ended while they waited", refused, applied),
	}, Signs: map[string]int{signClaimed: w.claimed, signLate: w.late, signHeldLate: refused + applied}}, nil
}
