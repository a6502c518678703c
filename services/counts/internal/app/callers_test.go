package app_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/rowlock/rowlock/platform/auth/authtest"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
	"github.com/rowlock/rowlock/services/counts/internal/app"
	"github.com/rowlock/rowlock/services/counts/internal/postgres"
)

const (
	shop = "system:serviceaccount:shop:web"
	taxi = "system:serviceaccount:taxi:rides"

	everyone = `rules: [{subjects: ["system:serviceaccount:*"], services: [counts], allow: [read, change, administer]}]`
)

// A replica without AUTH ends and one with it starts, as by an upgrade with strategy Recreate: a repeat of a request
// from before gets the first answer, and changes nothing. Another caller's key is another key.
func TestAuthIsSwitched(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	issuer := authtest.New(t)
	off := apptest.Run(t, app.Service(), dsn)
	send := func(r *apptest.Replica, caller, key string) apptest.Answer {
		header := issuer.Header(caller, apptest.JSON(), map[string]string{"Idempotency-Key": key})
		return apptest.Send(t, http.MethodPost, r.API+counts+"a/increase", "", header)
	}
	wantValue := func(a apptest.Answer, value int, replayed string) {
		t.Helper()
		body := fmt.Sprintf(`{"itemId":"a","value":%d}`+"\n", value)
		if a.Status != http.StatusOK || a.Body != body || a.Header.Get("Idempotent-Replayed") != replayed {
			t.Errorf("got %s, replayed %q, want %s", a, a.Header.Get("Idempotent-Replayed"), body)
		}
	}

	want(t, "POST", off.API+internalCounts, `{"itemId":"a"}`, 201, "")
	const keys = 5
	for i := range keys {
		wantValue(send(off, shop, fmt.Sprint("before ", i)), i+1, "")
	}
	if err := off.Stop(); err != nil {
		t.Fatal(err)
	}

	token := apptest.Run(t, app.Service(), dsn, issuer.Environ(t, everyone))
	waittest.Eventually(t, "the issuer's keys are known", func() bool {
		a := apptest.Send(t, http.MethodGet, token.API+internalCounts+"/a", "", issuer.Header(shop))
		return a.Status == http.StatusOK
	})
	for i := range keys {
		wantValue(send(token, shop, fmt.Sprint("before ", i)), i+1, "true")
	}
	for i, caller := range []string{shop, taxi} {
		wantValue(send(token, caller, "after"), keys+i+1, "")
	}
}
