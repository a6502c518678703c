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
	history *History
	lists   *keys
	holding *lateChanges

	mu      sync.Mutex
	claims  []iidyClaimed // the last ones, alive or not
	claimed int           // claims that took something
	late    int           // changes that were sent after their lease was over
}

func newIidy(c *Caller, h *History, prefix string) Workload { //nolint:ireturn // one of kinds
	return &iidy{caller: c, history: h, lists: newKeys(prefix, activeLists), holding: &lateChanges{caller: c, prefix: prefix}}
}

// iidyVerb is what is done to the items.
type iidyVerb string

const (
	iidyAdd       iidyVerb = "add"
	iidyIncrement iidyVerb = "increment"
	iidyDelete    iidyVerb = "delete"
	iidyPage      iidyVerb = "page" // of the whole list

	// The verbs of claims, of the whole list too.
	iidyClaim   iidyVerb = "claim"
	iidyExtend  iidyVerb = "extend"
	iidyRelease iidyVerb = "release"
)

// ofList tells whether the operation may concern every item of its list.
func (verb iidyVerb) ofList() bool {
	return verb == iidyPage || verb == iidyClaim || verb == iidyExtend || verb == iidyRelease
}

// iidyInput is an operation on a set of a list's items, a bit for each.
// Claim is the one that a change names, if any; Count is how many items a claim takes.
type iidyInput struct {
	Verb  iidyVerb
	Items uint8
	Claim string
	Count int
}

// iidyList is what a page shows: the attempts of each item, absent for one that is
// not there.
type iidyList [listItems]int64

const absent = -1

// iidyOutput is what an operation told of one item: its attempts by a page or, if it
// was taken, by a claim; 1 or 0 by a change. Told is false where a batch's number says
// nothing of a single item.
type iidyOutput struct {
	N     int64
	Told  bool
	Claim string        // that took the item
	Until time.Duration // its end
}

// Step adds, increments or deletes one item or a batch, reads the list, claims what
// is free of it, or does something with a claim.
func (w *iidy) Step(ctx context.Context, client int, random *rand.Rand) {
	list := w.lists.pick(random)
	in := iidyInput{Items: uint8(1 + random.IntN(1<<listItems-1))}
	if random.IntN(2) == 0 {
		in.Items = 1 << random.IntN(listItems) // a single item, by group commit
	}
	switch random.IntN(10) {
	case 0, 1:
		in.Verb = iidyAdd
	case 2, 3:
		in.Verb = iidyIncrement
	case 4:
		in.Verb = iidyDelete
	case 5:
		in = iidyInput{Verb: iidyPage}
	case 6, 7:
		in = iidyInput{Verb: iidyClaim, Count: 1 + random.IntN(listItems)}
	default:
		c, ok := w.claim(random)
		if !ok {
			in.Verb = iidyAdd
			break
		}
		list, in.Claim = c.list, c.id
		in.Verb = []iidyVerb{iidyIncrement, iidyIncrement, iidyDelete, iidyExtend, iidyRelease}[random.IntN(5)]
		if in.Verb.ofList() {
			in.Items = 0
		}
	}
	w.do(ctx, client, list, in)
}

func (w *iidy) do(ctx context.Context, client int, list string, in iidyInput) Reply {
	op := Op{Client: client, Input: in, Call: w.history.Now()}
	method, path, body := in.request(list)
	r := w.caller.Send(ctx, method, path, body, wantJSON())
	op.Return, op.Outcome, op.Code = w.history.Now(), r.Outcome, r.Code
	var answer any
	if r.Outcome == OK {
		var err error
		if answer, err = in.read(r.Body); err != nil {
			op.Outcome, op.Code = Unknown, badBody
		}
	}
	w.noteClaim(list, in, op, answer)
	if in.Verb == iidyPage && op.Outcome == Unknown {
		op.Outcome = NotApplied // a read changes nothing
	}
	if op.Outcome == Unknown {
		w.lists.unknown(list)
	}
	for i := range listItems {
		if in.Verb.ofList() || in.Items&(1<<i) != 0 {
			op.Key, op.Output = list+"/"+itemName(i), in.told(answer, i, w.history.At)
			w.history.Add(op)
		}
	}
	return r
}

// wantJSON is the header that iidy needs to answer JSON.
func wantJSON() map[string]string { return map[string]string{"Accept": "application/json"} }

// told is what the answer says of one item.
func (in iidyInput) told(answer any, item int, at func(time.Time) time.Duration) any {
	switch answer := answer.(type) {
	case iidyList:
		return iidyOutput{N: answer[item], Told: true}
	case iidyTaken:
		out := iidyOutput{N: answer.list[item], Told: true}
		if out.N != absent {
			out.Claim, out.Until = answer.claim, at(answer.until)
		}
		return out
	case int64:
		switch all := int64(bits.OnesCount8(in.Items)); {
		case answer == 0:
			return iidyOutput{N: 0, Told: true}
		case answer == all && !in.Verb.ofList():
			return iidyOutput{N: 1, Told: true}
		}
		return iidyOutput{}
	}
	return nil
}

// request is the operation as the API has it: by the item's own path for one, by a
// batch for several.
func (in iidyInput) request(list string) (method, path, body string) {
	const lists, batch = "/iidy/v1/lists/", "/iidy/v1/batch/lists/"
	if in.Verb == iidyPage {
		return http.MethodGet, batch + list + "?count=100", ""
	}
	method, query := http.MethodPost, ""
	switch in.Verb {
	case iidyClaim:
		return method, batch + list + fmt.Sprintf("?action=claim&count=%d&lease=%s", in.Count, workLease), ""
	case iidyExtend:
		return method, batch + list + fmt.Sprintf("?action=extend&claim=%s&lease=%s", in.Claim, workLease), ""
	case iidyRelease:
		return method, batch + list + "?action=release&claim=" + in.Claim, ""
	case iidyDelete:
		method = http.MethodDelete
		if in.Claim != "" {
			query = "?claim=" + in.Claim
		}
	case iidyIncrement:
		query = "?action=increment"
		if in.Claim != "" {
			query += "&claim=" + in.Claim
		}
	case iidyAdd, iidyPage:
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
func (in iidyInput) read(body []byte) (any, error) {
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
	if in.Verb == iidyClaim {
		body = []byte(strings.Replace(string(body), `"lease_until":""`, `"lease_until":null`, 1)) // of a claim that took nothing
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		return nil, fmt.Errorf("the body %q: %w", body, err)
	}
	if (in.Verb == iidyPage || in.Verb == iidyClaim) && doc.Entries != nil {
		list := emptyList()
		for _, entry := range *doc.Entries {
			if len(entry.Item) != 1 || entry.Item[0] < 'a' || entry.Item[0] >= 'a'+listItems {
				return nil, fmt.Errorf("the page has an item %q", entry.Item)
			}
			list[entry.Item[0]-'a'] = entry.Attempts
		}
		switch {
		case in.Verb == iidyPage:
			return list, nil
		case list == emptyList():
			return iidyTaken{list: list}, nil
		case doc.Until != nil && doc.Claim != "":
			return iidyTaken{list, doc.Claim, *doc.Until}, nil
		}
	}
	n := map[iidyVerb]*int64{
		iidyAdd: doc.Added, iidyIncrement: doc.Incremented, iidyDelete: doc.Deleted, iidyExtend: doc.Extended, iidyRelease: doc.Released,
	}[in.Verb]
	if n == nil {
		return nil, fmt.Errorf("the body %q is no answer to %s", body, in.Verb)
	}
	return *n, nil
}

func emptyList() iidyList { return iidyList{absent, absent, absent, absent} }

// Probe asks for an empty page.
func (w *iidy) Probe(ctx context.Context) error {
	r := w.caller.Send(ctx, http.MethodGet, "/iidy/v1/batch/lists/probe?count=1", "", wantJSON())
	if r.Outcome == OK {
		return nil
	}
	return fmt.Errorf("a page is answered %d %s", r.Status, r.Code)
}

// Settle reads every list.
func (w *iidy) Settle(ctx context.Context) error {
	w.holding.sent.Wait()
	for _, list := range w.lists.all() {
		if r := w.do(ctx, -1, list, iidyInput{Verb: iidyPage}); r.Outcome != OK {
			return fmt.Errorf("the last page of %s is answered %d %s", list, r.Status, r.Code)
		}
	}
	return nil
}

// Signs counts what claims did.
func (w *iidy) Signs() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return map[string]int{signClaimed: w.claimed, signLate: w.late, signHeldLate: w.holding.all()}
}

// Check demands that every item is linearizable.
func (w *iidy) Check(ctx context.Context, db *sqldb.DB, pictures string) ([]Check, error) {
	ops := w.history.Ops()
	var wrong int
	err := db.GetContext(ctx, &wrong, `SELECT count(*) FROM iidy.lists WHERE attempts < 0 OR (claim IS NULL) <> (lease_until IS NULL)`)
	if err != nil {
		return nil, fmt.Errorf("read the lists: %w", err)
	}
	batches := 0
	for _, op := range ops {
		if in, ok := op.Input.(iidyInput); ok && bits.OnesCount8(in.Items) > 1 && op.Outcome == OK {
			batches++
		}
	}
	return []Check{
		checkLinear(iidyModel(), ops, nil, pictures).check(),
		unexpected(ops, Refused),
		check("rows", wrong == 0, "%d rows that no operation could have made; %d batches succeeded", wrong, batches),
		w.holding.check(),
	}, nil
}
