package apptest

import (
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/rowlock/rowlock/platform/contention"
)

// Contention is the lock metrics of a store in a test, and what they say.
type Contention struct {
	// Metrics are given to the store.
	Metrics *contention.Metrics

	registry *prometheus.Registry
	lock     string
}

// NewContention makes lock metrics on a registry of their own.
func NewContention(t *testing.T, s contention.Settings) *Contention {
	t.Helper()
	c := &Contention{registry: prometheus.NewRegistry(), lock: s.Lock}
	var err error
	if c.Metrics, err = contention.New(c.registry, s); err != nil {
		t.Fatal(err)
	}
	return c
}

// Waits is how many waits were noted, and for how many seconds all of them together.
func (c *Contention) Waits(t *testing.T, where contention.Place) (n, seconds float64) {
	t.Helper()
	labels := `{lock="` + c.lock + `",where="` + string(where) + `"}`
	return Gathered(t, c.registry, "rowlock_lock_wait_seconds_count"+labels), Gathered(t, c.registry, "rowlock_lock_wait_seconds_sum"+labels)
}

// Conflicts is how many conflicts were noted.
func (c *Contention) Conflicts(t *testing.T, reason contention.Reason) float64 {
	t.Helper()
	return Gathered(t, c.registry, `rowlock_lock_conflicts_total{lock="`+c.lock+`",reason="`+string(reason)+`"}`)
}

// Gathered reads one series of a registry, named as /metrics does, labels and all. A
// series that is not there fails the test.
func Gathered(t *testing.T, g prometheus.Gatherer, series string) float64 {
	t.Helper()
	page := httptest.NewRecorder()
	promhttp.HandlerFor(g, promhttp.HandlerOpts{}).ServeHTTP(page, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	v, err := metric(page.Body.String(), series)
	if err != nil {
		t.Error(err)
	}
	return v
}
