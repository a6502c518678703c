package observe

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/lab/internal/services"
)

// callers describes the load of one service.
type callers struct {
	service string
	prepare []request
	next    func(n int) request
	// perSecond is the number of requests that begin in a second.
	perSecond int
}

// load is the callers of all services.
type load struct {
	http *http.Client
	sent atomic.Int64
	// stop ends it, once and for all.
	stop func()
	// by counts the answers by status, 0 for none.
	mu sync.Mutex
	by map[int]int
	// claim is that of iidy's last claim.
	claim atomic.Pointer[string]
	// faulty makes payments use a card with which the processor fails.
	faulty atomic.Bool
	// changing makes pyggpot's callers change pots only: reads would wait for locks with connections that changes need.
	changing atomic.Bool
	// silent stops the callers of events.
	silent atomic.Bool
}

const (
	// burst is the number of requests for a service that begin at once.
	burst = 10
	// clients is the number of requests for a service in flight at most.
	clients = 24
)

// startLoad starts the callers; they end with stop or with the test.
func startLoad(t *testing.T, r *rig) *load {
	t.Helper()
	l := &load{http: newClient(t), by: map[int]int{}}
	ctx, cancel := context.WithCancel(t.Context())
	var calling sync.WaitGroup
	l.stop = func() {
		cancel()
		calling.Wait()
	}
	t.Cleanup(l.stop)
	for _, c := range l.callers() {
		set := r.of(c.service)
		for _, q := range c.prepare {
			if status, body := l.send(ctx, set, q); status/100 != 2 {
				t.Fatalf("%s %s: %d %s", q.method, q.path, status, body)
			}
		}
		calls := make(chan int)
		calling.Go(func() {
			defer close(calls)
			// In bursts, so that requests meet.
			ticker := time.NewTicker(burst * time.Second / time.Duration(c.perSecond))
			defer ticker.Stop()
			for n := 0; ; {
				select {
				case <-ticker.C:
				case <-ctx.Done():
					return
				}
				for range burst {
					n++
					if c.service == services.Events && l.silent.Load() {
						continue
					}
					select {
					case calls <- n:
					default: // all clients are busy
					}
				}
			}
		})
		for range clients {
			calling.Go(func() {
				for n := range calls {
					l.send(ctx, set, c.next(n))
				}
			})
		}
	}
	return l
}

// send sends to one of the replicas that are ready, drawn at random: by turns one replica would get all requests for
// one key.
func (l *load) send(ctx context.Context, set *local.Set, q request) (status int, body string) {
	ready := set.Ready()
	if len(ready) == 0 {
		return 0, ""
	}
	return l.to(ctx, ready[rand.N(len(ready))].API, q)
}

// to sends to an address. A claim of iidy is kept for the requests that follow.
func (l *load) to(ctx context.Context, addr string, q request) (status int, body string) {
	a := l.call(ctx, addr, q)
	if claim := a.header.Get(claimHeader); claim != "" {
		l.claim.Store(&claim)
	}
	return a.status, a.body
}

const claimHeader = "X-Iidy-Claim"

// call sends to an address and counts the answer; without one its status is 0.
func (l *load) call(ctx context.Context, addr string, q request) answer {
	a, err := send(ctx, l.http, addr, q)
	if err != nil {
		a = answer{body: err.Error()}
	}
	l.sent.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.by[a.status]++
	return a
}

func (l *load) callers() []callers {
	return []callers{l.counting(), l.paying(), l.listing(), adding(), l.saving()}
}

const hotCounter = "hot"

// counting: mostly one hot counter, some others, and an unknown one.
func (l *load) counting() callers {
	items := []string{hotCounter, "a", "b", "c"}
	c := callers{service: services.Counts, perSecond: 60, next: func(n int) request {
		item := items[n%len(items)]
		switch n % 20 {
		case 3:
			return get("/api/v1/internal/counts/" + item)
		case 7:
			return post("/api/v1/counts/"+item+"/decrease", "")
		case 11:
			return post("/api/v1/counts/unknown/increase", "")
		case 13:
			return post("/api/v1/counts/c/reset", "")
		}
		if n%2 == 0 {
			item = hotCounter
		}
		return post("/api/v1/counts/"+item+"/increase", "")
	}}
	for _, item := range items {
		c.prepare = append(c.prepare, post("/api/v1/internal/counts", `{"itemId":"`+item+`"}`))
	}
	return c
}

// The simulated processor's cards.
const (
	cardGood     = "4242424242424242"
	cardDeclined = "4000000000000002"
	cardError    = "4000000000000119"
	cardTimeout  = "4000000000000259"
)

func pay(key, card string, amount int) request {
	q := post("/v1/payments", fmt.Sprintf(`{"ride_id":"ride","rider_id":"rider","amount":%d,"currency":"EUR",`+
		`"card":{"number":"%s","exp_month":12,"exp_year":2099,"cvc":"123"}}`, amount, card))
	q.header = map[string]string{"Idempotency-Key": key}
	return q
}

// paying: new keys, some of them twice at once, old ones again, declined cards, and one key for another amount.
func (l *load) paying() callers {
	return callers{service: services.Payments, perSecond: 30, next: func(n int) request {
		key := func(back int) string { return fmt.Sprintf("key-%d", n-back) }
		switch n % 20 {
		case 1, 6:
			return pay(key(1), cardGood, 1250) // at once
		case 5, 15:
			return pay(key(5), cardGood, 1250)
		case 8:
			return pay(key(0), cardDeclined, 1250)
		case 12:
			return pay(key(12), cardGood, 99)
		case 17:
			if l.faulty.Load() {
				return pay(key(0), cardError, 1250)
			}
		case 19:
			return get("/v1/payments?ride_id=ride&limit=2")
		}
		return pay(key(0), cardGood, 1250)
	}}
}

// listing: single items, batches, and workers that claim and finish.
func (l *load) listing() callers {
	const list, batch = "/iidy/v1/lists/files", "/iidy/v1/batch/lists/files"
	return callers{service: services.Iidy, perSecond: 60, next: func(n int) request {
		item := fmt.Sprintf("/item-%d", n-n%10)
		claim := ""
		if held := l.claim.Load(); held != nil {
			claim = "claim=" + *held
		}
		switch n % 10 {
		case 1:
			return get(list + item)
		case 2:
			return post(list+item+"?action=increment", "")
		case 3:
			return remove(list+item, "")
		case 4:
			return post(batch, lines(n, 40))
		case 5:
			return post(batch+"?action=claim&count=30&lease=60s", "")
		case 0:
			return post(list+item, "")
		}
		switch {
		case n%50 == 9:
			return remove(batch+"?min_attempts=5", "")
		case claim == "":
		case n%10 == 6:
			return post(batch+"?action=extend&lease=60s&"+claim, "")
		case n%10 == 7:
			return post(batch+"?action=increment&"+claim, lines(n-3, 5))
		case n%10 == 8:
			return remove(batch+"?"+claim, lines(n-4, 40))
		case n%50 == 19:
			return post(batch+"?action=release&"+claim, "")
		}
		return get(batch + "?count=10")
	}}
}

// lines returns n items of a batch.
func lines(from, n int) string {
	var text strings.Builder
	for i := range n {
		_, _ = fmt.Fprintf(&text, "file-%d-%02d\n", from, i)
	}
	return text.String()
}

// adding: events, now and later, and reads of some.
func adding() callers {
	return callers{service: services.Events, perSecond: 60, next: func(n int) request {
		switch n % 10 {
		case 3:
			return get("/events")
		case 6:
			return get(fmt.Sprintf("/events/%d", max(1, n/2)))
		case 1, 5, 9:
			return post("/events", "")
		}
		return post("/events/async", "")
	}}
}

// saving: coins into a few pots and out of them again.
func (l *load) saving() callers {
	const pots, pot, coin = 4, "/pyggpot.pot.Pot/", "/pyggpot.coin.Coin/"
	c := callers{service: services.Pyggpot, perSecond: 40, next: func(n int) request {
		id, action := 1+n%pots, n%10
		if l.changing.Load() {
			action = 0
		}
		switch action {
		case 4:
			return post(pot+"ViewPot", fmt.Sprintf(`{"pot_id":%d}`, id))
		case 7:
			return post(pot+"ListPots", `{"page":1,"limit":10}`)
		case 2, 8:
			return post(coin+"RemoveCoins", fmt.Sprintf(`{"pot_id":%d,"count":2}`, id))
		}
		return post(coin+"AddCoins",
			fmt.Sprintf(`{"pot_id":%d,"coins":[{"kind":"GOLD","count":3},{"kind":"BRONZE","count":2}]}`, id))
	}}
	for n := range pots {
		c.prepare = append(c.prepare,
			post(pot+"CreatePot", fmt.Sprintf(`{"pot_name":"Savings %d","max_coins":1000000}`, 10+n)))
	}
	return c
}
