package metrics_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/services/payments/internal/metrics"
)

// The gauges show the claims that are open, of which the oldest; one that outlived its limit is counted when it ends.
func TestOpenClaims(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		m := metrics.New(registry, 6*time.Second)
		want := func(open, oldest, overdue float64) {
			t.Helper()
			for series, want := range map[string]float64{
				"payments_claims_open": open, "payments_claim_oldest_seconds": oldest,
				"payments_claims_overdue_total": overdue, "payments_claim_limit_seconds": 6,
			} {
				if got := apptest.Gathered(t, registry, series); got != want {
					t.Errorf("%s is %g, want %g", series, got, want)
				}
			}
		}
		want(0, 0, 0)
		slow := m.Claimed()
		time.Sleep(5 * time.Second)
		quick := m.Claimed()
		want(2, 5, 0)
		time.Sleep(3 * time.Second)
		slow()
		want(1, 3, 1)
		quick()
		want(0, 0, 1)
	})
}
