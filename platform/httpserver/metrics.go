package httpserver

import (
	"cmp"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/rowlock/rowlock/platform/auth"
)

const (
	// methodOther is the label of every method outside the standard set.
	methodOther = "other"
	// routeUnmatched is the label of every path that no route serves.
	routeUnmatched = "unmatched"

	// nativeGrowth is the ratio between neighbouring buckets of the native histogram: 57 buckets from 0.5 ms to 10 s.
	nativeGrowth = 1.2
	// nativeBuckets bounds them per series: 70 take 10 kB of memory, the classic ones 1.5 kB. Beyond the bound, buckets
	// are merged, not reset: a reset would set the classic buckets and the count to zero.
	nativeBuckets = 100
)

// metrics holds the metrics of one server. Its name is a constant label, so that several servers can share a registry.
type metrics struct {
	duration *prometheus.HistogramVec
	failed   prometheus.Counter
	cut      prometheus.Counter
}

func newMetrics(server string, reg prometheus.Registerer, a *admission) *metrics {
	labels := prometheus.Labels{"server": server}
	m := &metrics{duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:        "http_server_request_duration_seconds",
		Help:        "Time from the request's header to the end of its handler, by route template.",
		ConstLabels: labels,
		// From well below one commit to REQUEST_TIMEOUT; 0.2 is the source's p99.
		Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .2, .5, 1, 2.5, 5, 10},
		// For scrapers that ask for it; all others get only the classic buckets.
		NativeHistogramBucketFactor: nativeGrowth, NativeHistogramMaxBucketNumber: nativeBuckets,
		NativeHistogramMaxExemplars: -1, // the classic buckets have them
	}, []string{"method", "route", "status"})}

	gauge := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "http_server_requests_in_flight",
		Help:        "Requests in progress.",
		ConstLabels: labels,
	}, func() float64 { return float64(len(a.permits)) })

	// A counter, because increase() does not see the first event of a series, and each status starts a new series of the
	// histogram: it would miss a burst of failures.
	m.failed = prometheus.NewCounter(prometheus.CounterOpts{
		Name:        "http_server_requests_failed_total",
		Help:        "Requests answered with a 5xx status, but for tokens with a key that the issuer has just not had.",
		ConstLabels: labels,
	})
	m.cut = prometheus.NewCounter(prometheus.CounterOpts{
		Name:        "http_server_answers_cut_total",
		Help:        "Answers cut because the client read too slowly.",
		ConstLabels: labels,
	})

	reg.MustRegister(m.duration, m.failed, m.cut, gauge)
	return m
}

// observe counts a request that was answered with status after some time. A sampled span becomes the exemplar of its
// bucket, which Prometheus stores if its exemplar storage is on.
func (m *metrics) observe(r *request, status int, took time.Duration, span trace.SpanContext) {
	if status >= http.StatusInternalServerError && !errors.Is(r.err, auth.ErrUnseenKey) {
		m.failed.Inc()
	}

	route := cmp.Or(r.route, routeUnmatched)
	observer := m.duration.WithLabelValues(canonicalMethod(r.method), route, strconv.Itoa(status))
	if exemplars, ok := observer.(prometheus.ExemplarObserver); ok && span.IsSampled() {
		exemplars.ObserveWithExemplar(took.Seconds(), prometheus.Labels{
			"trace_id": span.TraceID().String(), "span_id": span.SpanID().String(),
		})
		return
	}
	observer.Observe(took.Seconds())
}

// canonicalMethod returns the methods of RFC 9110 and PATCH as they are, any other as methodOther: a client must not be
// able to invent labels.
func canonicalMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace:
		return method
	default:
		return methodOther
	}
}
