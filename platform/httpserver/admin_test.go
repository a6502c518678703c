package httpserver

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func startAdmin(t *testing.T, pprof bool, readiness *Readiness) (url string) {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "answer", Help: "It."}, func() float64 { return 42 }))
	a := NewAdmin(AdminConfig{Addr: "127.0.0.1:0", PProf: pprof, Gatherer: registry, Readiness: readiness},
		slog.New(slog.DiscardHandler))
	return "http://" + start(t, a.endpoint)
}

// there is the ping of a database that answers.
func there(context.Context) error { return nil }

func TestAdmin(t *testing.T) {
	t.Parallel()
	readiness := NewReadiness(there, slog.New(slog.DiscardHandler))
	url := startAdmin(t, false, readiness)
	client := newClient(t)
	want := func(path string, status int, part string) {
		t.Helper()
		if a := send(t, client, "GET", url+path, nil); a.status != status || !strings.Contains(a.body, part) {
			t.Errorf("%s: %d %q, want %d %q", path, a.status, a.body, status, part)
		}
	}
	want("/livez", 200, "ok")
	want("/readyz", 503, "starting")
	readiness.Started()
	want("/readyz", 200, "ok")
	want("/metrics", 200, "answer 42")
	want("/debug/pprof/", 404, "")
	readiness.Drain()
	want("/readyz", 503, "shutting down")
	want("/livez", 200, "ok")

	url = startAdmin(t, true, readiness)
	want("/debug/pprof/", 200, "goroutine")
	want("/debug/pprof/heap", 200, "")
	want("/debug/pprof/profile?seconds=1", 200, "")
}

// An outage makes a replica unready only if it lasts, and a database that was never reached counts from the start: the
// migrations did reach it.
func TestReadinessDoesNotFlap(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		away func(second int) bool
		want int // changes, each with a line in the log: one flip is "not ready" and back
	}{
		"always there":       {func(int) bool { return false }, 0},
		"2 s":                {func(s int) bool { return 10 <= s && s < 12 }, 0},
		"9 s":                {func(s int) bool { return 10 <= s && s < 19 }, 0},
		"8 s from the start": {func(s int) bool { return s < 8 }, 2},
		"30 s":               {func(s int) bool { return 10 <= s && s < 40 }, 2},
		"two outages":        {func(s int) bool { return 10 <= s && s < 30 || 50 <= s && s < 70 }, 4},
		"there now and then": {func(s int) bool { return s < 100 && s%5 != 0 }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				start, ready, flips := time.Now(), true, 0
				var lines bytes.Buffer
				r := NewReadiness(func(ctx context.Context) error {
					if !c.away(int(time.Since(start) / time.Second)) {
						return nil
					}
					<-ctx.Done() // a database that is away often does not even refuse
					return ctx.Err()
				}, slog.New(slog.NewTextHandler(&lines, nil)))
				r.Started()
				go func() { _ = r.Run(t.Context()) }()

				for range 1200 { // two minutes
					time.Sleep(100 * time.Millisecond)
					if is, _ := r.Ready(); is != ready {
						ready, flips = is, flips+1
					}
				}
				if !ready || flips != c.want {
					t.Errorf("%d changes, want %d; ready at the end: %t", flips, c.want, ready)
				}
				if n := strings.Count(lines.String(), "\n"); n != c.want {
					t.Errorf("%d lines in the log, want %d:\n%s", n, c.want, &lines)
				}
			})
		})
	}
}
