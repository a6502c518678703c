package app_test

import (
	"fmt"
	"testing"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/dbtest/faultproxy"
	"github.com/rowlock/rowlock/services/iidy/internal/postgres"
)

// The reply to COMMIT gets lost, of a batch, of a long one and of an abandonment:
// the outcome is looked up and told truly, and nothing is applied twice.
func TestLostReplyToACommit(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]faultproxy.How{"FIN": faultproxy.FIN, "RST": faultproxy.RST} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := dbtest.Postgres(t, postgres.Migrations())
			proxy := faultproxy.New(t, dsn)
			r := start(t, proxy.DSN(dsn), nil)
			const n = 11_000
			r.want(t, "POST", batch, numbers(n), 201, fmt.Sprint("ADDED ", n))
			for i, step := range []struct{ method, query, body, want string }{
				{"POST", "?action=increment", "0000001\n0000002", "INCREMENTED 2"},
				{"POST", "?action=increment", numbers(n), fmt.Sprint("INCREMENTED ", n)},
				{"DELETE", "?min_attempts=2", "", "DELETED 2"},
			} {
				proxy.Cut(faultproxy.AfterCommit, how, faultproxy.Times(1))
				r.want(t, step.method, batch+step.query, step.body, 200, step.want)
				if proxy.Cuts() != i+1 {
					t.Fatalf("%d cuts after step %d: the test proved nothing", proxy.Cuts(), i)
				}
			}
			r.want(t, "GET", items, "", 200, fmt.Sprintf(
				"items %d\nclaimed 0\nattempts 0 0\nattempts 1 %d\nattempts 2 0\nattempts 3 0\nattempts 4 0\nattempts 5+ 0", n-2, n-2))
		})
	}
}

// The reply to a group of single increments gets lost: some outcomes are unknown,
// none is told wrongly, and nothing is sent twice.
func TestLostReplyToAGroup(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	proxy := faultproxy.New(t, dsn)
	r, witness := start(t, proxy.DSN(dsn), nil), start(t, dsn, nil)
	r.want(t, "POST", items+"/a", "", 201, "ADDED 1")
	proxy.CutEvery(5, faultproxy.AfterStatement, faultproxy.RST)
	results := make(chan apptest.Answer, 16*20)
	apptest.Together(16, func(int) {
		for range 20 {
			results <- apptest.Send(t, "POST", r.api+items+"/a?action=increment", "", nil)
		}
	})
	close(results)
	var sure, open int
	for a := range results {
		switch code := a.Header.Get("X-Error-Code"); {
		case a.Status == 200:
			sure++
		case code == "OUTCOME_UNKNOWN":
			open++
		case a.Status != 503:
			t.Error(a)
		}
	}
	var attempts int
	a := apptest.Get(t, witness.api+items+"/a")
	if _, err := fmt.Sscan(a.Body, &attempts); err != nil || attempts < sure || attempts > sure+open {
		t.Errorf("%s attempts, %d are sure and %d open (%v)", a, sure, open, err)
	}
	if proxy.Cuts() == 0 || open == 0 {
		t.Errorf("%d cuts, %d unknown: the test proved nothing", proxy.Cuts(), open)
	}
}

// The reply to a single add, a single delete or a claim gets lost: it is told to be
// unknown, and repeating it finds out. The reply to what is done with a claim is
// looked up, as that of a batch is.
func TestLostReplyToAStatement(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	proxy := faultproxy.New(t, dsn)
	r, witness := start(t, proxy.DSN(dsn), nil), start(t, dsn, nil)
	lost := func(method, path string) {
		t.Helper()
		cuts := proxy.Cuts()
		proxy.Cut(faultproxy.AfterStatement, faultproxy.RST, faultproxy.Times(1))
		a := apptest.Send(t, method, r.api+path, "", nil)
		if a.Status != 500 || a.Header.Get("X-Error-Code") != "OUTCOME_UNKNOWN" || proxy.Cuts() != cuts+1 {
			t.Errorf("%s %s, with %d cuts: %s", method, path, proxy.Cuts()-cuts, a)
		}
	}
	const claim = "?action=claim&count=2&lease="
	prepared := func() { // by the connection whose next statement is cut
		r.want(t, "POST", items+"/b", "", 201, "ADDED 1")
		r.want(t, "DELETE", items+"/b", "", 200, "DELETED 1")
		r.want(t, "POST", batch+"-other"+claim+"1s", "", 200, "")
	}
	prepared()
	lost("POST", items+"/a")
	witness.want(t, "GET", items+"/a", "", 200, "0")
	r.want(t, "POST", items+"/a", "", 201, "ADDED 0")
	prepared()
	lost("DELETE", items+"/a")
	witness.want(t, "GET", items+"/a", "", 404, "Not found.")
	r.want(t, "DELETE", items+"/a", "", 200, "DELETED 0")
	r.want(t, "POST", batch, "x\ny", 201, "ADDED 2")
	prepared()
	lost("POST", batch+claim+"1s")
	var id string
	apptest.WaitUntil(t, "the lease of the claim that nobody knows is over", func() bool {
		a := apptest.Send(t, "POST", witness.api+batch+claim+"1h", "", nil)
		id = a.Header.Get("X-IIDY-Claim")
		return a.Status == 200 && a.Body == "x 0\ny 0\n"
	})
	for i, step := range []struct{ query, want string }{
		{"?action=extend&lease=2h&claim=", "EXTENDED 2"},
		{"?action=release&claim=", "RELEASED 2"},
	} {
		cuts := proxy.Cuts()
		proxy.Cut(faultproxy.AfterCommit, faultproxy.FIN, faultproxy.Times(1))
		r.want(t, "POST", batch+step.query+id, "", 200, step.want)
		if proxy.Cuts() != cuts+1 {
			t.Errorf("no cut in step %d: the test proved nothing", i)
		}
	}
	witness.want(t, "POST", batch+claim+"1s", "", 200, "x 0\ny 0")
}
