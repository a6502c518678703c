package traces

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/lab/internal/collector"
	"github.com/rowlock/rowlock/platform/dbtest"
)

// step is a request of the story and what must come of it.
type step struct {
	service string
	request request
	status  int
	tree    string // of its trace; empty: whatever it is
}

// story is what happens to the services while all is well: the main paths, and
// every kind of mistake that a client can make. Marks are everywhere.
func story() []step {
	const json = `{"itemId":"` + mark + luhn + `","initialValue":5}`
	pay := func(ride, number string) string {
		return `{"ride_id":"` + ride + `","rider_id":"` + mark + `","amount":1250,"currency":"EUR",` +
			`"card":{"number":"` + number + `","exp_month":12,"exp_year":2099,"cvc":"987"}}`
	}
	key, faulty := map[string]string{"Idempotency-Key": mark}, map[string]string{"Idempotency-Key": "f" + mark}
	post, get := http.MethodPost, http.MethodGet
	id := mark + luhn
	return []step{
		{"counts", request{post, "/api/v1/internal/counts", json, nil}, 201, treeCreate},
		{"counts", request{post, "/api/v1/counts/" + id + "/increase", "", nil}, 200, treeIncrease},
		{"counts", request{get, "/api/v1/internal/counts?itemIds=" + id, "", nil}, 200, treeRead},
		{"counts", request{post, "/api/v1/internal/counts", json, nil}, 409, ""},
		{"counts", request{post, "/api/v1/counts/x" + id + "/increase", "", nil}, 404, treeNotFound},
		{"counts", request{post, "/api/v1/counts/" + id + "/increase", `{"amount":"` + id + `"}`, nil}, 400, treeBad},
		{"counts", request{post, "/api/v1/counts/" + id + "/increase", `{"` + id, nil}, 400, ""},
		{"counts", request{get, "/" + id + "?" + id + "=" + id, "", map[string]string{
			"User-Agent": id, "X-Forwarded-For": id, "X-Request-Id": id, "Referer": id, "Baggage": id,
		}}, 404, "GET\n"},
		{"counts", request{"PROPFIND" + mark, "/api/v1/internal/counts", "", nil}, 405, "HTTP\n"},

		{"payments", request{post, "/v1/payments", pay(mark, card), key}, 201, treePay},
		{"payments", request{post, "/v1/payments", pay(mark, card), key}, 201, treeReplay},
		{"payments", request{post, "/v1/payments", pay("x"+mark, card), key}, 409, ""},
		{"payments", request{post, "/v1/payments", pay(mark, card), map[string]string{"Idempotency-Key": id}}, 400, ""},
		{"payments", request{post, "/v1/payments", pay(id, card), map[string]string{"Idempotency-Key": "k" + mark}}, 400, ""},
		{"payments", request{post, "/v1/payments", pay(mark, luhn+"1"), map[string]string{"Idempotency-Key": "k" + mark}}, 400, ""},
		{"payments", request{post, "/v1/payments", pay(mark, "4000000000000002"), map[string]string{"Idempotency-Key": "d" + mark}}, 201, ""},
		{"payments", request{post, "/v1/payments", pay(mark, "4000000000000119"), faulty}, 502, treeFault},
		{"payments", request{get, "/v1/payments?ride_id=" + mark, "", nil}, 200, ""},
		{"payments", request{get, "/v1/payments/" + id, "", nil}, 400, ""},

		{"iidy", request{post, "/iidy/v1/lists/" + id + "/" + id, "", nil}, 201, treeAdd},
		{"iidy", request{post, "/iidy/v1/batch/lists/" + id, `{"items":["a` + id + `","b` + id + `"]}`, nil}, 201, treeBatch},
		{"iidy", request{post, "/iidy/v1/batch/lists/" + id + "?action=claim&count=1&lease=60s", "", nil}, 200, ""},
		{"iidy", request{get, "/iidy/v1/lists/" + id + "/" + id, "", nil}, 200, ""},
		{"iidy", request{get, "/iidy/v1/lists/" + id + "/x" + id, "", nil}, 404, ""},
		{"iidy", request{get, "/iidy/v1/batch/lists/" + id + "?count=" + id, "", nil}, 400, ""},
		{"iidy", request{post, "/iidy/v1/batch/lists/" + id, `{"items":["` + strings.Repeat(id, 80) + `"]}`, nil}, 400, ""},

		{"events-serve", request{post, "/events", "", nil}, 201, treeEvent},
		{"events-serve", request{post, "/events/async", id, nil}, 202, ""},
		{"events-serve", request{get, "/events/1", "", nil}, 200, ""},
		{"events-serve", request{get, "/events/" + id, "", nil}, 400, ""},
		{"events-serve", request{get, "/events/9000000000000000000", "", nil}, 404, ""},

		{"pyggpot", request{post, "/pyggpot.pot.Pot/CreatePot", `{"pot_name":"` + id + `","max_coins":100}`, nil}, 200, ""},
		{"pyggpot", request{post, "/pyggpot.coin.Coin/AddCoins", `{"pot_id":1,"coins":[{"kind":"GOLD","count":3}]}`, nil}, 200, treeCoins},
		{"pyggpot", request{post, "/twirp/pyggpot.coin.Coin/RemoveCoins", `{"pot_id":1,"count":1}`, nil}, 200, ""},
		{"pyggpot", request{post, "/pyggpot.pot.Pot/CreatePot", `{"pot_name":"` + id + `","max_coins":100}`, nil}, 409, ""},
		{"pyggpot", request{post, "/pyggpot.pot.Pot/ViewPotByName", `{"pot_name":"x` + id + `"}`, nil}, 404, ""},
		{"pyggpot", request{post, "/pyggpot.pot.Pot/CreatePot", `{"pot_name":"` + id + ` !","max_coins":1}`, nil}, 400, ""},
		{"pyggpot", request{post, "/pyggpot.pot.Pot/CreatePot", `{"` + id + `":1}`, nil}, 400, ""},
	}
}

// changes are one request of each service that must fail while the database is away.
func changes() []step {
	const body = `{"ride_id":"` + mark + `","rider_id":"` + mark + `","amount":1,"currency":"EUR",` +
		`"card":{"number":"` + card + `","exp_month":12,"exp_year":2099,"cvc":"987"}}`
	post, get := http.MethodPost, http.MethodGet
	return []step{
		{"counts", request{post, "/api/v1/counts/" + mark + "/increase", "", nil}, 503, ""},
		{"counts", request{get, "/api/v1/internal/counts/" + mark, "", nil}, 503, ""},
		{"payments", request{post, "/v1/payments", body, map[string]string{"Idempotency-Key": "away" + mark}}, 503, ""},
		{"iidy", request{post, "/iidy/v1/lists/" + mark + "/" + mark, "", nil}, 503, ""},
		{"iidy", request{post, "/iidy/v1/batch/lists/" + mark, `{"items":["` + mark + `"]}`, nil}, 503, ""},
		{"events-serve", request{post, "/events", "", nil}, 503, ""},
		{"pyggpot", request{post, "/pyggpot.coin.Coin/AddCoins", `{"pot_id":1,"coins":[{"kind":"GOLD","count":1}]}`, nil}, 503, ""},
	}
}

// TestStory runs all services through their main paths, bad input, a database that
// is killed and comes back, and SIGTERM, and judges every span and every log line.
func TestStory(t *testing.T) {
	t.Parallel()
	server := dbtest.Server(t)
	dsn := server.URL("postgres")
	spans := collector.Start(t)
	services := map[string]*service{}
	for _, name := range []string{"counts", "payments", "iidy", "events-serve", "pyggpot", "events-work"} {
		services[name] = run(t, name, dsn, spans.Environ(), map[string]string{"OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test"})
	}
	c := client(t)
	j := &judge{spans: spans, services: services}

	for _, s := range story() {
		a := services[s.service].send(t, c, s.request)
		j.answered(t, s, a)
		if tree := collector.Tree(traceOf(t, spans, a.trace), caller); s.tree != "" && tree != s.tree {
			t.Errorf("%s %s %s: the trace is\n%swant\n%s", s.service, s.request.method, s.request.path, tree, s.tree)
		}
	}
	j.worked(t)

	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, s := range changes() {
		eventually(t, "without a database "+s.service+" says so", func() bool { // a pool may notice late
			a := services[s.service].send(t, c, s.request)
			j.answered(t, step{service: s.service, request: s.request, status: a.status}, a)
			return a.status == s.status
		})
	}
	eventually(t, "the worker tells that it cannot work", func() bool {
		return services["events-work"].log.count("a batch of events was not worked") > 0
	})
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	again := step{"counts", request{http.MethodPost, "/api/v1/counts/" + mark + luhn + "/increase", "", nil}, 200, ""}
	eventually(t, "the service is back", func() bool {
		a := services["counts"].send(t, c, again.request)
		j.answered(t, step{service: "counts", request: again.request, status: a.status}, a)
		return a.status == http.StatusOK
	})
	for name, s := range services {
		if took := s.stop(t); took > 10*time.Second {
			t.Errorf("%s took %s to stop", name, took)
		}
	}
	j.judgeSpans(t)
	j.judgeLogs(t)
}

// worked demands a trace of the worker for the pending event of the story.
func (j *judge) worked(t *testing.T) {
	t.Helper()
	var found collector.Span
	eventually(t, "the trace of the worked batch", func() bool {
		for _, s := range j.spans.Spans() {
			if s.Name == "events.work" {
				found = s
				return true
			}
		}
		return false
	})
	if tree := collector.Tree(j.spans.Trace(found.Trace), caller); tree != treeWork {
		t.Errorf("the worker's trace is\n%swant\n%s", tree, treeWork)
	}
	if found.Attributes["rowlock.poll.found"] != strconv.Itoa(1) {
		t.Errorf("the batch has %v", found.Attributes)
	}
}
