package prove

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"

	"github.com/anishathalye/porcupine"

	"github.com/rowlock/rowlock/platform/sqldb"
)

const (
	// activePots are few: a pot is what the replicas contend for.
	activePots = 6
	// potSize is small, so that pots are full and empty now and then.
	potSize = 60
	// potOps are fewer than other keys have: a random draw leaves the model more to try.
	potKinds = 3
)

// pots is the workload of the coin pots: add, remove by kind, remove at random, view.
type pots struct {
	caller  *Caller
	history *History
	keys    *keys
	ids     firsts[int32] // of the pots that were created; 0 for one that could not be
}

func newPots(c *Caller, h *History, prefix string) Workload { //nolint:ireturn // one of kinds
	return &pots{caller: c, history: h, keys: newKeys(prefix, activePots)}
}

// potCoins are numbers of coins: bronze, silver, gold.
type potCoins [potKinds]int32

func (c potCoins) sum() (n int32) {
	for _, one := range c {
		n += one
	}
	return n
}

// potInput is an operation on a pot: Add, Remove by kind, Draw at random, or none
// of them for a look.
type potInput struct {
	Add, Remove potCoins
	Draw        int32
}

func (in potInput) look() bool { return in == potInput{} }

// kindNames are the kinds in the contract's JSON.
func kindNames() [potKinds]string { return [potKinds]string{"BRONZE", "SILVER", "GOLD"} }

// Step changes a random pot or looks at it.
func (w *pots) Step(ctx context.Context, client int, random *rand.Rand) {
	key := w.keys.pick(random)
	id := w.create(ctx, key)
	if id == 0 {
		return
	}
	var in potInput
	some := func() (c potCoins) {
		for i := range c {
			c[i] = random.Int32N(6)
		}
		c[random.IntN(potKinds)]++
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
	w.do(ctx, client, key, id, in)
}

func (w *pots) do(ctx context.Context, client int, key string, id int32, in potInput) Reply {
	op := Op{Client: client, Key: key, Input: in, Call: w.history.Now()}
	procedure, body := in.request(id)
	r := w.call(ctx, procedure, body)
	op.Return, op.Outcome, op.Code = w.history.Now(), r.Outcome, r.Code
	if r.Outcome == OK {
		var err error
		if op.Output, err = readCoins(r.Body); err != nil {
			op.Outcome, op.Code = Unknown, badBody
		}
	}
	if in.look() && op.Outcome == Unknown {
		op.Outcome = NotApplied // a read changes nothing
	}
	if op.Outcome == Unknown {
		w.keys.unknown(key)
	}
	w.history.Add(op)
	return r
}

func (in potInput) request(id int32) (procedure, body string) {
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
	case in.look():
		procedure = "pyggpot.pot.Pot/ViewPot"
	case in.Add != potCoins{}:
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

func readCoins(body []byte) (potCoins, error) {
	var doc struct {
		Coins []struct {
			Kind  string `json:"kind"`
			Count int32  `json:"count"`
		} `json:"coins"`
	}
	var coins potCoins
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
	if r.Status == 0 || r.Outcome == OK {
		return r
	}
	switch r.Code {
	case "unavailable", "aborted":
		r.Outcome = NotApplied
	case "not_found", "already_exists", "failed_precondition", "invalid_argument":
		r.Outcome = Refused
	case "NOT_APPLIED": // the balancer's
		r.Outcome = NotApplied
	default:
		r.Outcome = Unknown
	}
	return r
}

// create makes a pot once and returns its id.
func (w *pots) create(ctx context.Context, key string) int32 {
	return w.ids.get(key, func() (id int32, final bool) {
		r := w.call(ctx, "pyggpot.pot.Pot/CreatePot", fmt.Sprintf(`{"pot_name":%q,"max_coins":%d}`, key, potSize))
		if r.Outcome == NotApplied {
			return 0, false // another client may try again
		}
		if r.Outcome != OK {
			r = w.call(ctx, "pyggpot.pot.Pot/ViewPotByName", fmt.Sprintf(`{"pot_name":%q}`, key))
		}
		var doc struct {
			ID int32 `json:"pot_id"`
		}
		if r.Outcome == OK && json.Unmarshal(r.Body, &doc) != nil {
			doc.ID = 0
		}
		return doc.ID, true
	})
}

// Probe asks for a page of pots.
func (w *pots) Probe(ctx context.Context) error {
	r := w.call(ctx, "pyggpot.pot.Pot/ListPots", `{"page":1,"limit":1}`)
	if r.Outcome == OK {
		return nil
	}
	return fmt.Errorf("a page is answered %d %s", r.Status, r.Code)
}

// Settle looks at every pot.
func (w *pots) Settle(ctx context.Context) error {
	for key, id := range w.ids.all() {
		if id == 0 {
			continue
		}
		if r := w.do(ctx, -1, key, id, potInput{}); r.Outcome != OK {
			return fmt.Errorf("the last look at %s is answered %d %s", key, r.Status, r.Code)
		}
	}
	return nil
}

// Hold locks a pot's row.
func (w *pots) Hold(context.Context) Holding {
	return Holding{Statement: fmt.Sprintf(`SELECT FROM pyggpot.pot WHERE pot_name = '%s' FOR UPDATE`, w.keys.first())}
}

// Signs has none: what leases do is in the replicas' metrics.
func (*pots) Signs() map[string]int { return nil }

// potModel is a pot that begins empty. What a random draw takes is up to chance, so
// any coins that are there in the right number explain it; an unknown draw may
// have taken any, so it has many states after it.
func potModel() porcupine.Model {
	nondeterministic := porcupine.NondeterministicModel{
		Init: func() []any { return []any{potCoins{}} },
		Step: func(state, input, output any) []any {
			coins, _ := state.(potCoins)
			in, _ := input.(potInput)
			op, _ := output.(Op)
			return in.step(coins, op)
		},
		DescribeOperation: func(input, output any) string {
			in, _ := input.(potInput)
			op, _ := output.(Op)
			return fmt.Sprintf("add %v remove %v draw %d -> %v %s %s", in.Add, in.Remove, in.Draw, op.Output, op.Outcome, op.Code)
		},
	}
	return nondeterministic.ToModel()
}

// step returns the states that the pot may be in after the operation; none when
// the answer cannot be.
func (in potInput) step(pot potCoins, op Op) []any {
	told, _ := op.Output.(potCoins)
	known := op.Outcome == OK
	switch {
	case op.Outcome == Refused: // a pot that is full
		return only(in.Add != potCoins{} && pot.sum()+in.Add.sum() > potSize, pot)
	case in.look():
		return only(told == pot, pot)
	case in.Add != potCoins{}:
		after := pot
		for i, n := range in.Add {
			after[i] += n
		}
		fits := after.sum() <= potSize
		if !known {
			return only(true, pick(fits, after, pot))
		}
		return only(fits && told == in.Add, after)
	case in.Draw > 0:
		if !known {
			return draws(pot, min(in.Draw, pot.sum()))
		}
		after, ok := pot.without(told)
		return only(ok && told.sum() == min(in.Draw, pot.sum()), after)
	default:
		taken := potCoins{}
		for i, n := range in.Remove {
			taken[i] = min(n, pot[i])
		}
		after, _ := pot.without(taken)
		return only(!known || told == taken, after)
	}
}

func only(legal bool, state potCoins) []any {
	if !legal {
		return nil
	}
	return []any{state}
}

func pick(first bool, a, b potCoins) potCoins {
	if first {
		return a
	}
	return b
}

// without takes coins out; false when there are not so many.
func (c potCoins) without(taken potCoins) (potCoins, bool) {
	for i, n := range taken {
		if n > c[i] {
			return c, false
		}
		c[i] -= n
	}
	return c, true
}

// draws are all pots that are left when n coins are drawn.
func draws(pot potCoins, n int32) []any {
	var all []any
	for bronze := int32(0); bronze <= min(n, pot[0]); bronze++ {
		for silver := int32(0); silver <= min(n-bronze, pot[1]); silver++ {
			if after, ok := pot.without(potCoins{bronze, silver, n - bronze - silver}); ok {
				all = append(all, after)
			}
		}
	}
	return all
}

// Check demands that every pot is linearizable, and that what the database holds
// is in bounds and adds up.
func (w *pots) Check(ctx context.Context, db *sqldb.DB, pictures string) ([]Check, error) {
	ops := w.history.Ops()
	refused := func(op Op) bool { return op.Outcome == Refused }
	var wrong int
	err := db.GetContext(ctx, &wrong, `SELECT count(*) FROM pyggpot.pot p WHERE coins NOT BETWEEN 0 AND max_coins
		OR coins <> (SELECT coalesce(sum(coin_count), 0) FROM pyggpot.coin c WHERE c.pot_id = p.id)`)
	if err != nil {
		return nil, errors.Join(errors.New("read the pots"), err)
	}
	full := 0
	codes := map[string]int{}
	for _, op := range ops {
		if op.Outcome == Refused {
			codes[op.Code]++
			full++
		}
	}
	return []Check{
		checkLinear(potModel(), ops, refused, pictures).check(),
		unexpected(ops),
		check("refusals", full == codes["failed_precondition"], "%v", codes),
		check("coins", wrong == 0, "%d pots out of bounds or not the sum of their coins", wrong),
	}, nil
}
