package app_test

import (
	"testing"

	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/services/payments/internal/app"
)

const reference = "../../REFERENCE.md"

// The reference page shows configuration and metrics, and nothing that a client sends adds a series to these.
func TestReference(t *testing.T) {
	t.Parallel()
	apptest.ReferenceShowsConfiguration(t, reference, new(app.Config))
	dsn, _ := open(t)
	r := start(t, dsn, nil)
	r.pay(t, "k", body(1, goodCard)).paid(t)
	apptest.ReferenceShowsMetrics(t, reference, r.Replica, "payments_")
	apptest.SeriesAreBounded(t, r.Replica, r.API, "/v1/payments", "/v1/payments/%s")
}

func TestConfigRefuses(t *testing.T) {
	t.Parallel()
	apptest.ConfigRefuses[app.Config](t, map[string]map[string]string{
		"lock wait beyond the statement":   {"LOCK_WAIT": "9s"},
		"processor beyond the request":     {"PROCESSOR_TIMEOUT": "8s"},
		"ledger shorter than the keys":     {"LEDGER_RETENTION": "24h"},
		"keys shorter than a request":      {"IDEMPOTENCY_TTL": "17s", "REQUEST_TIMEOUT": "18s"},
		"keys shorter than two statements": {"IDEMPOTENCY_TTL": "16s"},
		"previous secret without a secret": {"FINGERPRINT_SECRET_PREVIOUS": "s3cret"},
	})
}
