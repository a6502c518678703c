package app_test

import (
	"strings"
	"testing"

	"github.com/rowlock/rowlock/platform/auth"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/services/iidy/api"
	"github.com/rowlock/rowlock/services/iidy/internal/app"
	"github.com/rowlock/rowlock/services/iidy/internal/postgres"
)

// With AUTH=token each operation needs its right, and a refusal has the format of other answers.
func TestRights(t *testing.T) {
	t.Parallel()
	r, issuer := apptest.RunGuarded(t, app.Service(), dbtest.Postgres(t, postgres.Migrations()))
	apptest.RightsAreInForce(t, r, issuer, api.OpenAPI, map[string]auth.Right{
		"POST /iidy/v1/lists/{list}/{item}":           auth.Change,
		"GET /iidy/v1/lists/{list}/{item}":            auth.Read,
		"DELETE /iidy/v1/lists/{list}/{item}":         auth.Change,
		"POST /iidy/v1/increment/lists/{list}/{item}": auth.Change,
		"GET /iidy/v1/lists/{list}":                   auth.Read,
		"HEAD /iidy/v1/lists/{list}":                  auth.Read,
		"POST /iidy/v1/batch/lists/{list}":            auth.Change,
		"GET /iidy/v1/batch/lists/{list}":             auth.Read,
		"DELETE /iidy/v1/batch/lists/{list}":          auth.Change,
		"POST /iidy/v1/increment/batch/lists/{list}":  auth.Change,
	})
	a := apptest.Send(t, "POST", r.API+items+"/a", "", nil)
	if !strings.HasPrefix(a.Body, "The request has no token.") || a.Header.Get("X-Error-Code") != "UNAUTHENTICATED" {
		t.Errorf("%s %v", a, a.Header)
	}
}
