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
)

// callers describes the load of one service.
type callers struct {
	service string
	prepare []request
	next    func(n int) request
	// perSecond is how many requests are begun, clients how many are under way at most.
	perSecond, clients int
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

// burst is how many requests for a service begin at once.
const burst = 10

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
					if c.service == "events" && l.silent.Load() {
						continue
					}
					select {
					case calls <- n:
					default: // all clients are busy
					}
				}
			}
		})
		for range c.clients {
			calling.Go(func() {
				for n := range calls {
					l.send(ctx, set, c.next(n))
				}
			})
		}
	}
	return l
}

// send sends to one of the replicas that are ready, drawn at random: by turns one replica would get all requests for one key.
func (l *load) send(ctx context.Context, set *local.Set, q request) (status int, body string) {
	backends := set.Backends()
	if len(backends) == 0 {
		return 0, ""
	}
	return l.to(ctx, backends[rand.N(len(backends))].Addr, q)
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
	c := callers{service: "counts", perSecond: 60, clients: 24}
	items := []string{hotCounter, "a", "b", "c"}
	for _, item := range items {
		c.prepare = append(c.prepare, post("/api/v1/internal/counts", `{"itemId":"`+item+`"}`))
	}
	c.next = func(n int) request {
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
		default:
			if n%2 == 0 {
				item = hotCounter
			}
			return post("/api/v1/counts/"+item+"/increase", "")
		}
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
	return request{
		method: http.MethodPost, path: "/v1/payments", header: map[string]string{"Idempotency-Key": key},
		body: fmt.Sprintf(`{"ride_id":"ride","rider_id":"rider","amount":%d,"currency":"EUR",`+
			`"card":{"number":"%s","exp_month":12,"exp_year":2099,"cvc":"123"}}`, amount, card),
	}
}

// paying: new keys, some of them twice at once, old ones again, declined cards, and one key for another amount.
func (l *load) paying() callers {
	return callers{service: "payments", perSecond: 30, clients: 24, next: func(n int) request {
		key := fmt.Sprintf("key-%d", n)
		switch n % 20 {
		case 1, 6:
			return pay(fmt.Sprintf("key-%d", n-1), cardGood, 1250) // at once
		case 5, 15:
			return pay(fmt.Sprintf("key-%d", n-5), cardGood, 1250)
		case 8:
			return pay(key, cardDeclined, 1250)
		case 12:
			return pay(fmt.Sprintf("key-%d", n-12), cardGood, 99)
		case 17:
			if l.faulty.Load() {
				return pay(key, cardError, 1250)
			}
		case 19:
			return get("/v1/payments?ride_id=ride&limit=2")
		}
		return pay(key, cardGood, 1250)
	}}
}

// listing: single items, batches, and workers that claim and finish.
func (l *load) listing() callers {
	const list = "/iidy/v1/lists/files"
	const batch = "/iidy/v1/batch/lists/files"
	return callers{service: "iidy", perSecond: 60, clients: 24, next: func(n int) request {
		item := fmt.Sprintf("/item-%d", n-n%10)
		switch n % 10 {
		case 1:
			return get(list + item)
		case 2:
			return post(list+item+"?action=increment", "")
		case 3:
			return request{method: http.MethodDelete, path: list + item}
		case 4:
			return post(batch, lines(n, 40))
		case 5:
			return post(batch+"?action=claim&count=30&lease=60s", "")
		case 6, 7, 8:
			claim := l.claim.Load()
			if claim == nil {
				return get(batch + "?count=10")
			}
			switch n % 10 {
			case 6:
				return post(batch+"?action=extend&lease=60s&claim="+*claim, "")
			case 7:
				return post(batch+"?action=increment&claim="+*claim, lines(n-3, 5))
			default:
				return request{method: http.MethodDelete, path: batch + "?claim=" + *claim, body: lines(n-4, 40)}
			}
		case 9:
			if n%50 == 9 {
				return request{method: http.MethodDelete, path: batch + "?min_attempts=5"}
			}
			if claim := l.claim.Load(); claim != nil && n%50 == 19 {
				return post(batch+"?action=release&claim="+*claim, "")
			}
			return get(batch + "?count=10")
		default:
			return post(list+item, "")
		}
	}}
}

// lines are n items of a batch.
func lines(from, n int) string {
	var text strings.Builder
	for i := range n {
		_, _ = fmt.Fprintf(&text, "file-%d-%02d\n", from, i)
	}
	return text.String()
}

// adding: events, now and later, and a look at some.
func adding() callers {
	return callers{service: "events", perSecond: 60, clients: 24, next: func(n int) request {
		switch n % 10 {
		case 3:
			return get("/events")
		case 6:
			return get(fmt.Sprintf("/events/%d", max(1, n/2)))
		case 1, 5, 9:
			return post("/events", "")
		default:
			return post("/events/async", "")
		}
	}}
}

// saving: coins into a few pots and out of them again.
func (l *load) saving() callers {
	c := callers{service: "pyggpot", perSecond: 40, clients: 24}
	const pots = 4
	for n := range pots {
		c.prepare = append(c.prepare, post("/pyggpot.pot.Pot/CreatePot", fmt.Sprintf(`{"pot_name":"Savings %d","max_coins":1000000}`, 10+n)))
	}
	c.next = func(n int) request {
		pot := 1 + n%pots
		action := n % 10
		if l.changing.Load() {
			action = 0
		}
		switch action {
		case 4:
			return post("/pyggpot.pot.Pot/ViewPot", fmt.Sprintf(`{"pot_id":%d}`, pot))
		case 7:
			return post("/pyggpot.pot.Pot/ListPots", `{"page":1,"limit":10}`)
		case 2, 8:
			return post("/pyggpot.coin.Coin/RemoveCoins", fmt.Sprintf(`{"pot_id":%d,"count":2}`, pot))
		default:
			coins := `[{"kind":"GOLD","count":3},{"kind":"BRONZE","count":2}]`
			return post("/pyggpot.coin.Coin/AddCoins", fmt.Sprintf(`{"pot_id":%d,"coins":%s}`, pot, coins))
		}
	}
	return c
}
