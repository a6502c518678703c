package app_test

import (
	"fmt"
	"testing"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/waittest"
	"github.com/rowlock/rowlock/services/iidy/internal/postgres"
)

// lossy is a replica behind a proxy that loses replies of its database, and a witness with a direct connection.
type lossy struct {
	*replica

	proxy   *faultproxy.Proxy
	witness *replica
}

func startLossy(t *testing.T) lossy {
	t.Helper()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	proxy := faultproxy.New(t, dsn)
	return lossy{startOn(t, proxy.DSN(dsn), nil), proxy, startOn(t, dsn, nil)}
}

// lose sends a request, and loses the reply to its next statement or COMMIT.
func (l lossy) lose(t *testing.T, when faultproxy.When, method, path, body string) apptest.Answer {
	t.Helper()
	cuts := l.proxy.Cuts()
	l.proxy.Cut(when, faultproxy.RST, faultproxy.Times(1))
	a := apptest.Send(t, method, l.API+path, body, nil)
	if l.proxy.Cuts() != cuts+1 {
		t.Errorf("%s %s: no reply was lost: the test proved nothing", method, path)
	}
	return a
}

// When the reply to the COMMIT of a batch, of a long one, of an abandonment or of a change of a claim is lost, its
// outcome is looked up, and nothing is applied twice.
func TestLostReplyToACommit(t *testing.T) {
	t.Parallel()
	l := startLossy(t)
	const n = 11_000
	l.want(t, "POST", batch, numbers(n), 201, fmt.Sprint("ADDED ", n))
	claimed := l.want(t, "POST", batch+"?action=claim&count=2&lease=1h", "", 200, "0000000 0\n0000001 0")
	claim := claimed.Header.Get("X-Iidy-Claim")
	for _, step := range []struct{ method, query, body, want string }{
		{"POST", "?action=extend&lease=2h&claim=" + claim, "", "EXTENDED 2"},
		{"POST", "?action=release&claim=" + claim, "", "RELEASED 2"},
		{"POST", "?action=increment", "0000001\n0000002", "INCREMENTED 2"},
		{"POST", "?action=increment", numbers(n), fmt.Sprint("INCREMENTED ", n)},
		{"DELETE", "?min_attempts=2", "", "DELETED 2"},
	} {
		if a := l.lose(t, faultproxy.AfterCommit, step.method, batch+step.query, step.body); a.Body != step.want+"\n" {
			t.Errorf("%s %s: %s, want %s", step.method, step.query, a, step.want)
		}
	}
	l.want(t, "DELETE", batch+"?min_attempts=1", "", 200, fmt.Sprint("DELETED ", n-2))
}

// When the reply to a change of a single item or to a claim is lost, its outcome is reported as unknown, and the
// change is not sent again.
func TestLostReplyToAStatement(t *testing.T) {
	t.Parallel()
	l := startLossy(t)
	const claim = "?action=claim&count=2&lease="
	unknown := func(method, path string) {
		t.Helper()
		// The connection prepares its statements first: the reply to the next one is lost.
		l.want(t, "POST", items+"/b", "", 201, "ADDED 1")
		l.want(t, "POST", items+"/b?action=increment", "", 200, "INCREMENTED 1")
		l.want(t, "DELETE", items+"/b", "", 200, "DELETED 1")
		l.want(t, "POST", batch+"-other"+claim+"1s", "", 200, "")
		a := l.lose(t, faultproxy.AfterStatement, method, path, "")
		if a.Status != 500 || a.Header.Get("X-Error-Code") != "OUTCOME_UNKNOWN" {
			t.Errorf("%s %s: %s", method, path, a)
		}
	}
	unknown("POST", items+"/a")
	l.witness.want(t, "GET", items+"/a", "", 200, "0")
	l.want(t, "POST", items+"/a", "", 201, "ADDED 0")
	unknown("POST", items+"/a?action=increment")
	l.witness.want(t, "GET", items+"/a", "", 200, "1")
	unknown("DELETE", items+"/a")
	l.witness.want(t, "GET", items+"/a", "", 404, "Not found.")
	l.want(t, "DELETE", items+"/a", "", 200, "DELETED 0")
	l.want(t, "POST", batch, "x\ny", 201, "ADDED 2")
	unknown("POST", batch+claim+"1s")
	waittest.Eventually(t, "the lease of the claim whose reply was lost has ended", func() bool {
		a := apptest.Send(t, "POST", l.witness.API+batch+claim+"1h", "", nil)
		return a.Status == 200 && a.Body == "x 0\ny 0\n"
	})
}
