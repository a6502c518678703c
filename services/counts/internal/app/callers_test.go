package app_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/auth/authtest"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/waittest"
	"github.com/rowlock/rowlock/services/counts/internal/app"
	"github.com/rowlock/rowlock/services/counts/internal/postgres"
)

const (
	shop = "system:serviceaccount:shop:web"
	taxi = "system:serviceaccount:taxi:rides"

	everyone = `rules: [{subjects: ["system:serviceaccount:*"], services: [counts], allow: [read, change, administer]}]`
)

// A replica without AUTH and one with it run side by side, as while the setting is rolled out or back: a change and its
// repeats, which meet both at once, are counted once and get one answer. Another caller's key is another key.
func TestAuthIsSwitched(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	issuer := authtest.New(t)
	off, token := apptest.Run(t, app.Service(), dsn), apptest.Run(t, app.Service(), dsn, issuer.Environ(t, everyone))
	send := func(r *apptest.Replica, caller, key string) apptest.Answer {
		header := issuer.Header(caller, apptest.JSON(), map[string]string{"Idempotency-Key": key})
		return apptest.Send(t, http.MethodPost, r.API+counts+"a/increase", "", header)
	}
	want(t, "POST", off.API+internalCounts, `{"itemId":"a"}`, 201, "")
	waittest.Eventually(t, "the issuer's keys are known", func() bool {
		a := apptest.Send(t, http.MethodGet, token.API+internalCounts+"/a", "", issuer.Header(shop))
		return a.Status == http.StatusOK
	})
	const rounds = 20
	for round := range rounds {
		key := fmt.Sprint("switched ", round)
		wanted := fmt.Sprintf(`{"itemId":"a","value":%d}`, round+1)
		waittest.Together(t, 12, func(i int) error {
			a := send([]*apptest.Replica{off, token}[i%2], shop, key)
			if a.Status != http.StatusOK || a.Body != wanted+"\n" {
				return fmt.Errorf("round %d got %s, want %s", round, a, wanted)
			}
			return nil
		})
	}
	for i, caller := range []string{shop, taxi} {
		if a := send(token, caller, "k"); a.Body != fmt.Sprintf(`{"itemId":"a","value":%d}`+"\n", rounds+i+1) {
			t.Errorf("%s got %s", caller, a)
		}
	}
	want(t, "GET", off.API+internalCounts+"/a", "", 200, fmt.Sprintf(`"currentValue":%d,`, rounds+2))
}
