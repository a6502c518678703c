package prove

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"

	"github.com/rowlock/rowlock/lab/internal/fault"
	"github.com/rowlock/rowlock/lab/internal/history"
	"github.com/rowlock/rowlock/platform/sqldb"
)

const (
	// activePots are few: a pot is what the replicas contend for.
	activePots = 6
	// potSize is small, so that pots are full and empty now and then.
	potSize = 60
)

// pots is the workload of the coin pots: add, remove by kind, remove at random, view.
type pots struct {
	caller  *Caller
	history *history.History
	keys    *keys
}

func newPots(c *Caller, h *history.History, prefix string) Workload { //nolint:ireturn // one of kinds
	return &pots{caller: c, history: h, keys: newKeys(prefix, activePots)}
}

// kindNames are the kinds in the contract's JSON.
func kindNames() [3]string { return [3]string{"BRONZE", "SILVER", "GOLD"} }

// Step changes a random pot or looks at it.
func (w *pots) Step(ctx context.Context, client int, random *rand.Rand) {
	key := w.keys.pick(random)
	if w.create(ctx, key) == 0 {
		return
	}
	var in history.PotInput
	some := func() (c history.Coins) {
		for i := range c {
			c[i] = random.Int32N(6)
		}
		c[random.IntN(len(c))]++
		return c
	}
	switch random.IntN(5) {
	case 0, 1:
		in.Add = some()
	case 2:
		in.Remove = some()
	case 3:
		in.Draw = 1 + random.Int32N(20)
	default:
	}
	w.do(ctx, client, key, in)
}

func (w *pots) do(ctx context.Context, client int, key *key, in history.PotInput) Reply {
	op := history.Op{Client: client, Key: key.name, Input: in, Call: w.history.Now()}
	procedure, body := potRequest(key.id, in)
	r := w.call(ctx, procedure, body)
	op.Return, op.Outcome, op.Code = w.history.Now(), r.Outcome, r.Code
	if r.Outcome == history.OK {
		var err error
		if op.Output, err = readCoins(r.Body); err != nil {
			op.Outcome, op.Code = history.Unknown, badBody
		}
	}
	if in.IsRead() && op.Outcome == history.Unknown {
		op.Outcome = history.NotApplied // a read changes nothing
	}
	w.keys.note(key, op.Outcome)
	w.history.Add(op)
	return r
}

func potRequest(id int32, in history.PotInput) (procedure, body string) {
	type coins struct {
		Kind  string `json:"kind"`
		Count int32  `json:"count"`
	}
	message := struct {
		ID    int32   `json:"pot_id"`
		Count int32   `json:"count,omitempty"`
		Coins []coins `json:"coins,omitempty"`
	}{ID: id, Count: in.Draw}
	procedure, list := "pyggpot.coin.Coin/RemoveCoins", in.Remove
	switch {
	case in.IsRead():
		procedure = "pyggpot.pot.Pot/ViewPot"
	case in.Add != history.Coins{}:
		procedure, list = "pyggpot.coin.Coin/AddCoins", in.Add
	}
	for i, n := range list {
		if n > 0 {
			message.Coins = append(message.Coins, coins{kindNames()[i], n})
		}
	}
	raw, _ := json.Marshal(message) //nolint:errchkjson // a struct of numbers and strings
	return procedure, string(raw)
}

func readCoins(body []byte) (history.Coins, error) {
	var doc struct {
		Coins []struct {
			Kind  string `json:"kind"`
			Count int32  `json:"count"`
		} `json:"coins"`
	}
	var coins history.Coins
	if err := json.Unmarshal(body, &doc); err != nil {
		return coins, fmt.Errorf("the body %q: %w", body, err)
	}
	for _, one := range doc.Coins {
		for i, name := range kindNames() {
			if one.Kind == name {
				coins[i] += one.Count
			}
		}
	}
	return coins, nil
}

// call sends a request by Connect's protocol, JSON by plain POST, and reads the
// codes that pyggpot answers instead of problem+json.
func (w *pots) call(ctx context.Context, procedure, body string) Reply {
	r := w.caller.Send(ctx, http.MethodPost, "/"+procedure, body, nil)
	if r.Status == 0 || r.Outcome == history.OK {
		return r
	}
	switch r.Code {
	case "unavailable", "aborted":
		r.Outcome = history.NotApplied
	case "not_found", "already_exists", "failed_precondition", "invalid_argument":
		r.Outcome = history.Refused
	case "NOT_APPLIED": // the balancer's
		r.Outcome = history.NotApplied
	default:
		r.Outcome = history.Unknown
	}
	return r
}

// create makes a pot once and returns its id.
func (w *pots) create(ctx context.Context, key *key) int32 {
	return key.ensure(func() (id int32, again bool) {
		r := w.call(ctx, "pyggpot.pot.Pot/CreatePot", fmt.Sprintf(`{"pot_name":%q,"max_coins":%d}`, key.name, potSize))
		if r.Outcome == history.NotApplied {
			return 0, true
		}
		if r.Outcome != history.OK {
			r = w.call(ctx, "pyggpot.pot.Pot/ViewPotByName", fmt.Sprintf(`{"pot_name":%q}`, key.name))
		}
		var doc struct {
			ID int32 `json:"pot_id"`
		}
		if r.Outcome == history.OK && json.Unmarshal(r.Body, &doc) != nil {
			doc.ID = 0
		}
		return doc.ID, false
	})
}

// Probe asks for a page of pots.
func (w *pots) Probe(ctx context.Context) error {
	r := w.call(ctx, "pyggpot.pot.Pot/ListPots", `{"page":1,"limit":1}`)
	if r.Outcome == history.OK {
		return nil
	}
	return fmt.Errorf("a page is answered %d %s", r.Status, r.Code)
}

// Settle looks at every pot.
func (w *pots) Settle(ctx context.Context) error {
	for _, key := range w.keys.all() {
		if key.id == 0 {
			continue
		}
		if r := w.do(ctx, -1, key, history.PotInput{}); r.Outcome != history.OK {
			return fmt.Errorf("the last look at %s is answered %d %s", key.name, r.Status, r.Code)
		}
	}
	return nil
}

// Lock locks a pot's row.
func (w *pots) Lock(context.Context) fault.Lock {
	return fault.Lock{Statement: fmt.Sprintf(`SELECT FROM pyggpot.pot WHERE pot_name = '%s' FOR UPDATE`, w.keys.first())}
}

// Check demands that every pot is linearizable, and that what the database holds
// is in bounds and adds up.
func (w *pots) Check(ctx context.Context, db *sqldb.DB, pictures string) (Findings, error) {
	ops := w.history.Ops()
	var wrong int
	err := db.GetContext(ctx, &wrong, `SELECT count(*) FROM pyggpot.pot p WHERE coins NOT BETWEEN 0 AND max_coins
		OR coins <> (SELECT coalesce(sum(coin_count), 0) FROM pyggpot.coin c WHERE c.pot_id = p.id)`)
	if err != nil {
		return Findings{}, fmt.Errorf("read the pots: %w", err)
	}
	full := 0
	codes := map[string]int{}
	for _, op := range ops {
		if op.Outcome == history.Refused {
			codes[op.Code]++
			full++
		}
	}
	return Findings{Checks: []Check{
		checkHistory(history.Pots(potSize), ops, pictures),
		checkAnswers(ops),
		check("refusals", full == codes["failed_precondition"], "%v", codes),
		check("coins", wrong == 0, "%d pots out of bounds or not the sum of their coins", wrong),
	}}, nil
}

// The signs of pyggpot's windows.
const (
	signTaken = "leases taken over"
	signStale = "stale holders refused"
)
