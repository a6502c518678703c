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
