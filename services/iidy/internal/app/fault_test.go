package app_test

import (
	"fmt"
	"testing"

	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest/faultproxy"
	"github.com/rowlock/rowlock/services/iidy/internal/postgres"
)

// When the reply to a change is lost its outcome is looked up: it is answered as applied, and applied once.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	proxy := faultproxy.New(t, dsn)
	r := startOn(t, proxy.DSN(dsn), nil)
	const n = 11_000
	r.want(t, "POST", batch, numbers(n), 201, fmt.Sprint("ADDED ", n))
	r.want(t, "POST", items+"/warm", "", 201, "ADDED 1") // has made a slot

	claim := ""
	for _, step := range []struct{ method, path, body, want string }{
		{"POST", items + "/a", "", "ADDED 1"},
		{"POST", items + "/a?action=increment", "", "INCREMENTED 1"},
		{"DELETE", items + "/a", "", "DELETED 1"},
		{"POST", batch + "?action=claim&count=2&lease=1h", "", "0000000 0\n0000001 0"},
		{"POST", batch + "?action=extend&lease=2h&claim=", "", "EXTENDED 2"},
		{"POST", batch + "?action=release&claim=", "", "RELEASED 2"},
		{"POST", batch + "?action=increment", "0000001\n0000002", "INCREMENTED 2"},
		{"POST", batch + "?action=increment", numbers(n), fmt.Sprint("INCREMENTED ", n)},
		{"DELETE", batch + "?min_attempts=2", "", "DELETED 2"},
	} {
		cuts, when, path := proxy.Cuts(), faultproxy.AfterCommit, step.path
		if path[:len(items)] == items {
			when = faultproxy.AfterStatement
		}
		if path[len(path)-1] == '=' {
			path += claim
		}
		proxy.Cut(when, faultproxy.RST, faultproxy.Matching("iidy.lists"))
		a := apptest.Send(t, step.method, r.API+path, step.body, nil)
		if a.Body != step.want+"\n" {
			t.Errorf("%s %s: %s, want %s", step.method, path, a, step.want)
		}
		if proxy.Cuts() != cuts+1 {
			t.Errorf("%s %s: no reply was lost: the test proved nothing", step.method, path)
		}
		if got := a.Header.Get("X-Iidy-Claim"); got != "" {
			claim = got
		}
	}
	r.want(t, "DELETE", batch+"?min_attempts=1", "", 200, fmt.Sprint("DELETED ", n-2))
}
