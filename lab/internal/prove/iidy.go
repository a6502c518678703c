package prove

import (
	"context"
	"encoding/json"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"net/http"
	"strings"

	"github.com/anishathalye/porcupine"

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
}

func newIidy(c *Caller, h *History, prefix string) Workload { //nolint:ireturn // one of kinds
	return &iidy{caller: c, history: h, lists: newKeys(prefix, activeLists)}
}

// iidyVerb is what is done to the items.
type iidyVerb string

const (
	iidyAdd       iidyVerb = "add"
	iidyIncrement iidyVerb = "increment"
	iidyDelete    iidyVerb = "delete"
	iidyPage      iidyVerb = "page" // of the whole list
)

// iidyInput is an operation on a set of a list's items, a bit for each.
type iidyInput struct {
	Verb  iidyVerb
	Items uint8
}

// iidyList is what a page shows: the attempts of each item, absent for one that is
// not there.
type iidyList [listItems]int64

const absent = -1

// iidyOutput is what an operation told of one item: its attempts by a page, 1 or 0
// by a change. Told is false where a batch's number says nothing of a single item.
type iidyOutput struct {
	N    int64
	Told bool
}

// Step adds, increments or deletes one item or a batch, or reads the list.
func (w *iidy) Step(ctx context.Context, client int, random *rand.Rand) {
	list := w.lists.pick(random)
	in := iidyInput{Items: uint8(1 + random.IntN(1<<listItems-1))}
	if random.IntN(2) == 0 {
		in.Items = 1 << random.IntN(listItems) // a single item, by group commit
	}
	switch random.IntN(6) {
	case 0, 1:
		in.Verb = iidyAdd
	case 2, 3:
		in.Verb = iidyIncrement
	case 4:
		in.Verb = iidyDelete
	default:
		in = iidyInput{Verb: iidyPage}
	}
	w.do(ctx, client, list, in)
}

func (w *iidy) do(ctx context.Context, client int, list string, in iidyInput) Reply {
	op := Op{Client: client, Input: in, Call: w.history.Now()}
	method, path, body := in.request(list)
	header := map[string]string{"Accept": "application/json"}
	if body != "" {
		header["Content-Type"] = "application/json"
	}
	r := w.caller.Send(ctx, method, path, body, header)
	op.Return, op.Outcome, op.Code = w.history.Now(), r.Outcome, r.Code
	var answer any
	if r.Outcome == OK {
		var err error
		if answer, err = in.read(r.Body); err != nil {
			op.Outcome, op.Code = Unknown, badBody
		}
	}
	if in.Verb == iidyPage && op.Outcome == Unknown {
		op.Outcome = NotApplied // a read changes nothing
	}
	if op.Outcome == Unknown {
		w.lists.unknown(list)
	}
	for i := range listItems {
		if in.Verb == iidyPage || in.Items&(1<<i) != 0 {
			op.Key, op.Output = list+"/"+itemName(i), in.told(answer, i)
			w.history.Add(op)
		}
	}
	return r
}

// told is what the answer says of one item.
func (in iidyInput) told(answer any, item int) any {
	switch answer := answer.(type) {
	case iidyList:
		return iidyOutput{answer[item], true}
	case int64:
		switch all := int64(bits.OnesCount8(in.Items)); answer {
		case all:
			return iidyOutput{1, true}
		case 0:
			return iidyOutput{0, true}
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
	case iidyDelete:
		method = http.MethodDelete
	case iidyIncrement:
		query = "?action=increment"
	case iidyAdd, iidyPage:
	}
	var names []string
	for i := range listItems {
		if in.Items&(1<<i) != 0 {
			names = append(names, itemName(i))
		}
	}
	if len(names) == 1 {
		return method, lists + list + "/" + names[0] + query, ""
	}
	return method, batch + list + query, `{"items":["` + strings.Join(names, `","`) + `"]}`
}

func itemName(i int) string { return string(rune('a' + i)) }

// read returns the number that a change answers with, or the list that a page shows.
func (in iidyInput) read(body []byte) (any, error) {
	var doc struct {
		Added       *int64 `json:"added"`
		Incremented *int64 `json:"incremented"`
		Deleted     *int64 `json:"deleted"`
		Entries     *[]struct {
			Item     string `json:"item"`
			Attempts int64  `json:"attempts"`
		} `json:"listentries"`
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		return nil, fmt.Errorf("the body %q: %w", body, err)
	}
	if in.Verb == iidyPage && doc.Entries != nil {
		list := emptyList()
		for _, entry := range *doc.Entries {
			if len(entry.Item) != 1 || entry.Item[0] < 'a' || entry.Item[0] >= 'a'+listItems {
				return nil, fmt.Errorf("the page has an item %q", entry.Item)
			}
			list[entry.Item[0]-'a'] = entry.Attempts
		}
		return list, nil
	}
	n := map[iidyVerb]*int64{iidyAdd: doc.Added, iidyIncrement: doc.Incremented, iidyDelete: doc.Deleted}[in.Verb]
	if n == nil {
		return nil, fmt.Errorf("the body %q is no answer to %s", body, in.Verb)
	}
	return *n, nil
}

func emptyList() iidyList { return iidyList{absent, absent, absent, absent} }

// step is what the operation does to one item, and the number that it answers with.
func (verb iidyVerb) step(attempts int64) (after, n int64) {
	there := attempts != absent
	switch {
	case verb == iidyPage:
		return attempts, attempts
	case verb == iidyAdd && !there:
		return 0, 1
	case verb == iidyIncrement && there:
		return attempts + 1, 1
	case verb == iidyDelete && there:
		return absent, 1
	}
	return attempts, 0
}

// iidyModel is an item that is not there at first.
func iidyModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return int64(absent) },
		Step: func(state, input, output any) (bool, any) {
			attempts, _ := state.(int64)
			in, _ := input.(iidyInput)
			op, _ := output.(Op)
			told, _ := op.Output.(iidyOutput)
			after, n := in.Verb.step(attempts)
			return op.Outcome == Unknown || !told.Told || told.N == n, after
		},
		DescribeOperation: func(input, output any) string {
			in, _ := input.(iidyInput)
			op, _ := output.(Op)
			return fmt.Sprintf("%s (of %04b) -> %v %s", in.Verb, in.Items, op.Output, op.Code)
		},
	}
}

// Probe asks for an empty page.
func (w *iidy) Probe(ctx context.Context) error {
	r := w.caller.Send(ctx, http.MethodGet, "/iidy/v1/batch/lists/probe?count=1", "", map[string]string{"Accept": "application/json"})
	if r.Outcome == OK {
		return nil
	}
	return fmt.Errorf("a page is answered %d %s", r.Status, r.Code)
}

// Settle reads every list.
func (w *iidy) Settle(ctx context.Context) error {
	for _, list := range w.lists.all() {
		if r := w.do(ctx, -1, list, iidyInput{Verb: iidyPage}); r.Outcome != OK {
			return fmt.Errorf("the last page of %s is answered %d %s", list, r.Status, r.Code)
		}
	}
	return nil
}

// Hold locks the rows of a list.
func (w *iidy) Hold() (statement string, locked func()) {
	return fmt.Sprintf(`SELECT FROM iidy.lists WHERE list = '%s' ORDER BY item FOR UPDATE`, w.lists.first()), func() {}
}

// Check demands that every item is linearizable.
func (w *iidy) Check(ctx context.Context, db *sqldb.DB, pictures string) ([]Check, error) {
	ops := w.history.Ops()
	var wrong int
	err := db.GetContext(ctx, &wrong, `SELECT count(*) FROM iidy.lists WHERE attempts < 0 OR claim IS NOT NULL`)
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
	}, nil
}
