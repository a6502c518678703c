package httpserver

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/pprof" // on http.DefaultServeMux too, which is not served
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// AdminConfig configures an admin listener.
type AdminConfig struct {
	// Addr is host:port; port 0 selects a free one.
	Addr string
	// PProf serves /debug/pprof/.
	PProf bool
	// Gatherer collects what /metrics shows; required.
	Gatherer prometheus.Gatherer
	// Readiness decides what /readyz answers; required.
	Readiness *Readiness
}

// Admin serves the operator's pages: /livez, /readyz, /metrics and, if enabled, /debug/pprof/. It has a separate
// listener, so that probes are answered however busy the API is, and none of it is public.
type Admin struct {
	*endpoint
}

const (
	// scrapes bounds the concurrent requests for /metrics.
	scrapes = 4
	// longestProfile fits a CPU profile of a minute.
	longestProfile = 90 * time.Second
)

// NewAdmin returns an admin listener. Shut it down last, so that probes see the whole drain.
func NewAdmin(cfg AdminConfig, log *slog.Logger) *Admin {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		// The database does not matter here: restarting the replica would not bring it back.
		probe(w, true, "")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		ready, why := cfg.Readiness.Ready()
		probe(w, ready, why)
	})

	mux.Handle("GET /metrics", promhttp.HandlerFor(cfg.Gatherer, promhttp.HandlerOpts{
		ErrorLog:            slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		ErrorHandling:       promhttp.ContinueOnError, // some metrics are better than none
		MaxRequestsInFlight: scrapes,
		EnableOpenMetrics:   true,
	}))

	if cfg.PProf {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}

	a := &Admin{endpoint: newEndpoint("admin", cfg.Addr, mux, log)}
	if cfg.PProf {
		a.http.WriteTimeout = longestProfile
	}
	return a
}

// probe answers a probe with its status; the text is for people.
func probe(w http.ResponseWriter, fine bool, why string) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	text := "ok\n"
	if !fine {
		text = fmt.Sprintf("not ready: %s\n", why)
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	// Writing fails only if the probe's connection is gone.
	_, _ = io.WriteString(w, text)
}
