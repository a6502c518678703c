package observe

import (
	"net/http"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/waittest"
)

const (
	// mark is in everything the tests send that a service must not show.
	mark = "Zq7MARKq7Z"
	// luhn has the digits of a card number, of no card.
	luhn = "4000056655665556"
)

// step is a request and the expected answer.
type step struct {
	service string
	request request
	status  int
	tree    string // of its trace; empty for any
}

// story returns requests of the main paths, and of every kind of a client's mistake. All of them carry marks.
func story() []step {
	const json = `{"itemId":"` + mark + luhn + `","initialValue":5}`
	payment := func(ride, number string) string {
		return `{"ride_id":"` + ride + `","rider_id":"` + mark + `","amount":1250,"currency":"EUR",` +
			`"card":{"number":"` + number + `","exp_month":12,"exp_year":2099,"cvc":"987"}}`
	}
	post, get := http.MethodPost, http.MethodGet
	pays := func(key, ride, number string) request {
		return request{post, "/v1/payments", payment(ride, number), map[string]string{"Idempotency-Key": key}}
	}
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

		{"payments", pays(mark, mark, cardGood), 201, treePay},
		{"payments", pays(mark, mark, cardGood), 201, treeReplay},
		{"payments", pays(mark, "x"+mark, cardGood), 409, ""},
		{"payments", pays(id, mark, cardGood), 400, ""},
		{"payments", pays("k"+mark, id, cardGood), 400, ""},
		{"payments", pays("k"+mark, mark, luhn+"1"), 400, ""},
		{"payments", pays("d"+mark, mark, cardDeclined), 201, ""},
		{"payments", pays("f"+mark, mark, cardError), 502, treeFault},
		{"payments", request{get, "/v1/payments?ride_id=" + mark, "", nil}, 200, ""},
		{"payments", request{get, "/v1/payments/" + id, "", nil}, 400, ""},

		{"iidy", request{post, "/iidy/v1/lists/" + id + "/" + id, "", nil}, 201, treeAdd},
		{"iidy", request{post, "/iidy/v1/batch/lists/" + id, `{"items":["a` + id + `","b` + id + `"]}`, nil}, 201, treeBatch},
		{"iidy", request{post, "/iidy/v1/batch/lists/" + id + "?action=claim&count=1&lease=60s", "", nil}, 200, ""},
		{"iidy", request{get, "/iidy/v1/lists/" + id + "/" + id, "", nil}, 200, ""},
		{"iidy", request{get, "/iidy/v1/lists/" + id + "/x" + id, "", nil}, 404, ""},
		{"iidy", request{get, "/iidy/v1/batch/lists/" + id + "?count=" + id, "", nil}, 400, ""},
		{"iidy", request{post, "/iidy/v1/batch/lists/" + id, `{"items":["` + strings.Repeat(id, 80) + `"]}`, nil}, 400, ""},

		{"events", request{post, "/events", "", nil}, 201, treeEvent},
		{"events", request{post, "/events/async", id, nil}, 202, ""},
		{"events", request{get, "/events/1", "", nil}, 200, ""},
		{"events", request{get, "/events/" + id, "", nil}, 400, ""},
		{"events", request{get, "/events/9000000000000000000", "", nil}, 404, ""},

		{"pyggpot", request{post, "/pyggpot.pot.Pot/CreatePot", `{"pot_name":"` + id + `","max_coins":100}`, nil}, 200, ""},
		{
			"pyggpot",
			request{post, "/pyggpot.coin.Coin/AddCoins", `{"pot_id":1,"coins":[{"kind":"GOLD","count":3}]}`, nil},
			200, treeCoins,
		},
		{"pyggpot", request{post, "/twirp/pyggpot.coin.Coin/RemoveCoins", `{"pot_id":1,"count":1}`, nil}, 200, ""},
		{"pyggpot", request{post, "/pyggpot.pot.Pot/CreatePot", `{"pot_name":"` + id + `","max_coins":100}`, nil}, 409, ""},
		{"pyggpot", request{post, "/pyggpot.pot.Pot/ViewPotByName", `{"pot_name":"x` + id + `"}`, nil}, 404, ""},
		{"pyggpot", request{post, "/pyggpot.pot.Pot/CreatePot", `{"pot_name":"` + id + ` !","max_coins":1}`, nil}, 400, ""},
		{"pyggpot", request{post, "/pyggpot.pot.Pot/CreatePot", `{"` + id + `":1}`, nil}, 400, ""},
	}
}

// changes returns requests of each service that fail while the database is down.
func changes() []step {
	const body = `{"ride_id":"` + mark + `","rider_id":"` + mark + `","amount":1,"currency":"EUR",` +
		`"card":{"number":"` + cardGood + `","exp_month":12,"exp_year":2099,"cvc":"987"}}`
	post, get := http.MethodPost, http.MethodGet
	return []step{
		{"counts", request{post, "/api/v1/counts/" + mark + "/increase", "", nil}, 503, ""},
		{"counts", request{get, "/api/v1/internal/counts/" + mark, "", nil}, 503, ""},
		{"payments", request{post, "/v1/payments", body, map[string]string{"Idempotency-Key": "away" + mark}}, 503, ""},
		{"iidy", request{post, "/iidy/v1/lists/" + mark + "/" + mark, "", nil}, 503, ""},
		{"iidy", request{post, "/iidy/v1/batch/lists/" + mark, `{"items":["` + mark + `"]}`, nil}, 503, ""},
		{"events", request{post, "/events", "", nil}, 503, ""},
		{
			"pyggpot",
			request{post, "/pyggpot.coin.Coin/AddCoins", `{"pot_id":1,"coins":[{"kind":"GOLD","count":1}]}`, nil},
			503, "",
		},
	}
}

// TestTraces sends the story to all services, kills the database and restarts it, stops the services, and judges every
// span and every log line. Then a client of ours, rowlock check, takes a trace through them.
func TestTraces(t *testing.T) {
	t.Parallel()
	server := dbtest.Server(t)
	j := &judge{spans: newCollector(t), processes: map[string]*process{}}
	var all []*fleet
	for _, f := range fleets() {
		p := &process{fleet: f, client: newClient(t)}
		f.line, f.environ = p.keep, j.spans.environ()
		f.environ["OTEL_RESOURCE_ATTRIBUTES"] = "deployment.environment.name=test"
		all, j.processes[strings.TrimSuffix(f.service+"-"+f.component, "-serve")] = append(all, f), p
	}
	startAll(t, all, 1, server)
	for _, s := range story() {
		trace := j.send(t, s)
		got := tree(j.spans.await(t, s.String(), func(s span) bool { return s.trace == trace && s.parent == caller }))
		if s.tree != "" && got != s.tree {
			t.Errorf("%s: the trace is\n%swant\n%s", s, got, s.tree)
		}
	}
	work := j.spans.await(t, "a worked batch", func(s span) bool { return s.name == "events.work" })
	if got := tree(work); got != treeWork {
		t.Errorf("the worker's trace is\n%swant\n%s", got, treeWork)
	}
	checkCalls(t, j)

	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, s := range changes() {
		waittest.Eventually(t, "without a database: "+s.String(),
			func() bool { return j.try(t, s) == s.status }) // a pool may notice late
	}
	worker := j.processes["events-work"]
	waittest.Eventually(t, "the worker logs that it cannot work",
		func() bool { return worker.logged("a batch of events was not worked") > 0 })
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	again := step{"counts", post("/api/v1/counts/"+mark+luhn+"/increase", ""), http.StatusOK, ""}
	waittest.Eventually(t, "the service is back", func() bool { return j.try(t, again) == http.StatusOK })
	for _, p := range j.processes {
		p.stop(t)
	}
	j.judgeSpans(t)
	j.judgeLogs(t)
}

// String names the step in messages.
func (s step) String() string { return s.service + ": " + s.request.method + " " + s.request.path }
