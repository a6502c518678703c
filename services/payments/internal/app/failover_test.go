package app_test

import (
	"net/http"
	"testing"

	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// The name of the database leads to the synchronous standby before that is promoted. A payment is refused meanwhile and
// nothing is charged, whether sessions on the standby are refused or accepted; afterwards it is made once, and the
// payments of before are there.
func TestANameThatMovesToTheStandby(t *testing.T) {
	t.Parallel()
	primary := dbtest.Server(t)
	dsn := primary.URL("postgres")
	name := faultproxy.New(t, dsn)
	replicas := map[string]*replica{
		"own":  start(t, name.DSN(dsn)),
		"any":  start(t, name.DSN(dsn)+"&target_session_attrs=any"),
		"both": nil,
	}
	standby := dbtest.Standby(t, primary)
	dbtest.WaitForStandby(t, primary)
	replicas["both"] = start(t, dbtest.BothHosts(t, primary, standby))
	paid := replicas["own"].pay(t, "before", body(100, goodCard)).paid(t)

	if err := primary.Crash(t.Context()); err != nil {
		t.Fatal(err)
	}
	name.Redirect(standby.Address())
	for kind, r := range replicas {
		for range 3 { // the first may find sessions that the primary's end has closed
			if err := r.pay(t, kind, body(100, goodCard)).check(503, "DATABASE_UNAVAILABLE"); err != nil {
				t.Errorf("%s: %v", kind, err)
			}
		}
		if a := apptest.Get(t, r.api+"?ride_id=ride-1"); kind != "any" && a.Status != http.StatusServiceUnavailable {
			t.Errorf("%s: the standby is read: %s", kind, a)
		}
	}
	if err := standby.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	for kind, r := range replicas {
		waittest.Eventually(t, "the replica serves", func() bool {
			return apptest.Get(t, r.Admin+"/readyz").Status == http.StatusOK
		})
		r.pay(t, kind, body(100, goodCard)).paid(t)
		r.pay(t, "before", body(100, goodCard)).repeats(t, paid)
	}
	base{dbtest.Dial(t, standby.URL("postgres"))}.counts(t, 4, 4, 4)
}
