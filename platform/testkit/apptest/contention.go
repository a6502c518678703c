package apptest

import (
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/rowlock/rowlock/platform/contention"
)

// Contention holds the lock metrics of a store in a test, and reads them.
type Contention struct {
	// Metrics are given to the store.
	Metrics *contention.Metrics

	registry *prometheus.Registry
	lock     string
}

// NewContention returns lock metrics on a separate registry.
func NewContention(t *testing.T, s contention.Settings) *Contention {
	t.Helper()
	registry := prometheus.NewRegistry()
	return &Contention{Metrics: contention.New(registry, s), registry: registry, lock: s.Lock}
}

// Waits returns how many waits were recorded, and their sum in seconds.
func (c *Contention) Waits(t *testing.T, where contention.Where) (n, seconds float64) {
	t.Helper()
	labels := `{lock="` + c.lock + `",where="` + string(where) + `"}`
	const name = "rowlock_lock_wait_seconds"
	return Gathered(t, c.registry, name+"_count"+labels), Gathered(t, c.registry, name+"_sum"+labels)
}

// Conflicts returns how many conflicts were recorded.
func (c *Contention) Conflicts(t *testing.T, reason contention.Reason) float64 {
	t.Helper()
	return Gathered(t, c.registry, `rowlock_lock_conflicts_total{lock="`+c.lock+`",reason="`+string(reason)+`"}`)
}

// Gathered returns one series of a registry, named as in /metrics with its labels. A missing series fails the test.
func Gathered(t *testing.T, g prometheus.Gatherer, series string) float64 {
	t.Helper()
	page := httptest.NewRecorder()
	request := httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil)
	promhttp.HandlerFor(g, promhttp.HandlerOpts{}).ServeHTTP(page, request)
	v, err := metric(page.Body.String(), series)
	if err != nil {
		t.Error(err)
	}
	return v
}
