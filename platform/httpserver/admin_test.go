package httpserver

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func startAdmin(t *testing.T, pprof bool, readiness *Readiness) (string, *Admin) {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "answer", Help: "It."}, func() float64 { return 42 }))
	a := NewAdmin(AdminConfig{Addr: "127.0.0.1:0", PProf: pprof, Gatherer: registry, Readiness: readiness},
		slog.New(slog.DiscardHandler))
	if err := a.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	stop := func() error { return a.Shutdown(context.WithoutCancel(t.Context())) }
	return "http://" + serveUntilEnd(t, a, stop), a
}

func TestAdmin(t *testing.T) {
	t.Parallel()
	readiness := NewReadiness(nil)
	url, _ := startAdmin(t, false, readiness)
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

	profiled, _ := startAdmin(t, true, readiness)
	url = profiled
	want("/debug/pprof/", 200, "goroutine")
	want("/debug/pprof/heap", 200, "")
	want("/debug/pprof/profile?seconds=1", 200, "")
}

// outage runs a database that is away in the given spans of seconds, and counts
// how often readiness changes.
func outage(t *testing.T, away func(second int) bool) (flips int) {
	t.Helper()
	start := time.Now()
	var hanging atomic.Int64
	r := NewReadiness(func(ctx context.Context) error {
		if !away(int(time.Since(start) / time.Second)) {
			return nil
		}
		hanging.Add(1)
		<-ctx.Done() // a database that is away often does not even refuse
		return ctx.Err()
	})
	r.Started()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	was := true
	for range 1200 { // two minutes
		time.Sleep(100 * time.Millisecond)
		if is, _ := r.Ready(); is != was {
			flips++
			was = is
		}
	}
	if !was {
		t.Error("not ready although the database is back")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
	return flips
}

func TestReadinessDoesNotFlap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			away func(second int) bool
			want int // changes: one flip is "not ready" and back
		}{
			"always there":       {func(int) bool { return false }, 0},
			"2 s":                {func(s int) bool { return 10 <= s && s < 12 }, 0},
			"9 s":                {func(s int) bool { return 10 <= s && s < 19 }, 0},
			"30 s":               {func(s int) bool { return 10 <= s && s < 40 }, 2},
			"two outages":        {func(s int) bool { return 10 <= s && s < 30 || 50 <= s && s < 70 }, 4},
			"there now and then": {func(s int) bool { return s < 100 && s%5 != 0 }, 0},
		} {
			if got := outage(t, c.away); got != c.want {
				t.Errorf("%s: %d changes, want %d", name, got, c.want)
			}
		}
	})
}

func TestReadiness(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// No ping has succeeded since the start: the migrations did, so three failures count.
		r := NewReadiness(func(context.Context) error { return errors.New("refused") })
		want := func(state string) {
			t.Helper()
			if ready, why := r.Ready(); ready != (state == "") || !strings.Contains(why, state) {
				t.Errorf("ready %v: %q, want %q", ready, why, state)
			}
		}
		want("starting")
		r.Started()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		time.Sleep(1500 * time.Millisecond)
		want("") // after two failures
		time.Sleep(time.Second)
		want("database")
		r.Drain()
		want("shutting down")
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
