package app_test

import (
	"testing"

	"github.com/rowlock/rowlock/platform/auth"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/services/counts/api"
	"github.com/rowlock/rowlock/services/counts/internal/app"
	"github.com/rowlock/rowlock/services/counts/internal/postgres"
)

// With AUTH=token each operation needs its right.
func TestRights(t *testing.T) {
	t.Parallel()
	r, issuer := apptest.RunGuarded(t, app.Service(), dbtest.Postgres(t, postgres.Migrations()))
	apptest.RightsAreInForce(t, r, issuer, api.OpenAPI, map[string]auth.Right{
		"POST /api/v1/counts":                     auth.Change,
		"POST /api/v1/counts/{itemId}/increase":   auth.Change,
		"POST /api/v1/counts/{itemId}/decrease":   auth.Change,
		"POST /api/v1/counts/{itemId}/reset":      auth.Change,
		"POST /api/v1/internal/counts":            auth.Administer,
		"GET /api/v1/internal/counts":             auth.Administer,
		"GET /api/v1/internal/counts/{itemId}":    auth.Administer,
		"PUT /api/v1/internal/counts/{itemId}":    auth.Administer,
		"DELETE /api/v1/internal/counts/{itemId}": auth.Administer,
	})
}

// The internal port on a listener of its own needs the same rights.
func TestRightsOfTheInternalListener(t *testing.T) {
	t.Parallel()
	r, issuer := apptest.RunGuarded(t, app.Service(), dbtest.Postgres(t, postgres.Migrations()),
		map[string]string{"INTERNAL_HTTP_ADDR": "127.0.0.1:0"})
	for subject, want := range map[string]int{"read": 403, "change": 403, "administer": 404} {
		if a := apptest.Send(t, "GET", r.Internal+internalCounts+"/a", "", issuer.Header(subject)); a.Status != want {
			t.Errorf("one who may %s: %s, want %d", subject, a, want)
		}
	}
	if a := apptest.Get(t, r.Internal+internalCounts+"/a"); a.Status != 401 {
		t.Errorf("without a token: %s", a)
	}
}
