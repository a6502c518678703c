package apptest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/chassis"
	"github.com/rowlock/rowlock/platform/config"
)

// App is what the composition root of every service gives.
type App interface {
	// Run serves until ctx ends, then drains.
	Run(ctx context.Context) error
	// AdminAddr is where probes and metrics are; nil before Run has come to it.
	AdminAddr() net.Addr
}

// Config reads a configuration from a replica's usual environment in a test: the
// database's URL, listeners on free ports, and whatever the maps say, later ones
// going over earlier ones.
func Config[C any](t *testing.T, dsn string, environs ...map[string]string) C {
	t.Helper()
	env := map[string]string{"DATABASE_URL": dsn, "HTTP_ADDR": "127.0.0.1:0", "ADMIN_ADDR": "127.0.0.1:0"}
	for _, environ := range environs {
		maps.Copy(env, environ)
	}
	var cfg C
	if err := config.Load(&cfg, env); err != nil {
		t.Fatal(err)
	}
	return cfg
}

// Run builds a replica of a service on the database dsn, with listeners on free ports and what the maps say in its
// environment, and runs it as Start does.
func Run[C chassis.Config](t *testing.T, s chassis.Service[C], dsn string, environs ...map[string]string) *Replica {
	t.Helper()
	environ := make(map[string]string)
	for _, e := range environs {
		maps.Copy(environ, e)
	}
	var log Log
	c, err := s.New(t.Context(), Config[C](t, dsn, environ), chassis.Process{Environ: environ, Output: &log})
	if err != nil {
		t.Fatal(err)
	}
	r := Start(t, c, &log)
	r.API, r.Internal = urlOf(c.Addr("api")), urlOf(c.Addr("internal"))
	return r
}

// urlOf returns the base URL of a listener; empty for one that there is not.
func urlOf(addr net.Addr) string {
	if addr == nil {
		return ""
	}
	return "http://" + addr.String()
}

// Replica is one running App.
type Replica struct {
	// API is the base URL of the listener "api" and Internal that of "internal"; empty without one, and where Start was
	// called instead of Run.
	API, Internal string
	// Admin is the base URL of probes and metrics.
	Admin string
	// Log is what the replica has logged.
	Log *Log

	stop func() error
}

// Start runs an app until the test ends or Stop is called, and waits until it is
// ready. log is where the app writes; a test that failed shows it.
func Start(t *testing.T, a App, log *Log) *Replica {
	t.Helper()
	r := &Replica{Log: log}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	r.stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() {
		if err := r.stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
		if t.Failed() {
			t.Log(r.Log)
		}
	})
	WaitUntil(t, "the replica is ready", func() bool {
		if a.AdminAddr() == nil {
			select {
			case err := <-ended:
				ended <- err
				t.Fatalf("the replica did not start: %v", err)
			default:
			}
			return false
		}
		r.Admin = "http://" + a.AdminAddr().String()
		return Get(t, r.Admin+"/readyz").Status == http.StatusOK
	})
	return r
}

// Stop ends the replica as SIGTERM does and returns how it ended. The end of the
// test calls it too; only the first call does anything.
func (r *Replica) Stop() error { return r.stop() }

// Metrics is the text of /metrics.
func (r *Replica) Metrics(t *testing.T) string {
	t.Helper()
	return Get(t, r.Admin+"/metrics").Body
}

// Metric reads one series, named as /metrics does, labels and all. A series that
// is not there fails the test.
func (r *Replica) Metric(t *testing.T, series string) float64 {
	t.Helper()
	v, err := metric(r.Metrics(t), series)
	if err != nil {
		t.Error(err)
	}
	return v
}

func metric(metrics, series string) (float64, error) {
	for line := range strings.Lines(metrics) {
		if rest, ok := strings.CutPrefix(line, series+" "); ok {
			var v float64
			if _, err := fmt.Sscan(rest, &v); err != nil {
				return 0, fmt.Errorf("/metrics: %s: %w", line, err)
			}
			return v, nil
		}
	}
	return 0, errors.New("/metrics lacks " + series)
}

// WaitUntil polls a condition until it holds, for ten seconds at most.
func WaitUntil(t *testing.T, what string, condition func() bool) {
	t.Helper()
	const limit, interval = 10 * time.Second, 5 * time.Millisecond
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); <-tick.C {
		if condition() {
			return
		}
	}
	t.Fatalf("not within %s: %s", limit, what)
}

// Together calls do(0) to do(n-1) in goroutines that are released at the same
// moment, and waits for all of them.
func Together(n int, do func(i int)) {
	var done sync.WaitGroup
	begin := make(chan struct{})
	for i := range n {
		done.Go(func() {
			<-begin
			do(i)
		})
	}
	close(begin)
	done.Wait()
}
