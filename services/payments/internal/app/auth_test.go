package app_test

import (
	"testing"

	"github.com/rowlock/rowlock/platform/auth"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/services/payments/api"
	"github.com/rowlock/rowlock/services/payments/internal/app"
	"github.com/rowlock/rowlock/services/payments/internal/postgres"
)

// With AUTH=token each operation needs its right.
func TestRights(t *testing.T) {
	t.Parallel()
	r, issuer := apptest.RunGuarded(t, app.Service(), dbtest.Postgres(t, postgres.Migrations()),
		map[string]string{"FINGERPRINT_SECRET": secretOne})
	apptest.RightsAreInForce(t, r, issuer, api.OpenAPI, map[string]auth.Right{
		"POST /v1/payments":     auth.Change,
		"GET /v1/payments":      auth.Read,
		"GET /v1/payments/{id}": auth.Read,
	})
}
