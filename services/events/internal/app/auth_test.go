package app_test

import (
	"testing"

	"github.com/rowlock/rowlock/platform/auth"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/services/events/api"
	"github.com/rowlock/rowlock/services/events/internal/app"
	"github.com/rowlock/rowlock/services/events/internal/postgres"
)

// With AUTH=token each operation needs its right.
func TestRights(t *testing.T) {
	t.Parallel()
	r, issuer := apptest.RunGuarded(t, app.Service(), dbtest.Postgres(t, postgres.Migrations()))
	apptest.RightsAreInForce(t, r, issuer, api.OpenAPI, map[string]auth.Right{
		"POST /events":       auth.Change,
		"POST /events/async": auth.Change,
		"GET /events":        auth.Read,
		"GET /events/{id}":   auth.Read,
	})
}
