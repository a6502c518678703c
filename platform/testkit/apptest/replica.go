package apptest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/chassis"
	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// Config reads a configuration as a replica would, from an environment with the database's URL, listeners on free ports
// and the variables of the maps; later maps win.
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

// ConfigRefuses fails the test unless each named set of variables, added to a DATABASE_URL, is refused.
func ConfigRefuses[C any](t *testing.T, environs map[string]map[string]string) {
	t.Helper()
	for name, environ := range environs {
		env := map[string]string{"DATABASE_URL": "postgres://u:s3cret@h/db?sslmode=disable"}
		if err := config.Load(new(C), env); err != nil {
			t.Fatal(err)
		}

		maps.Copy(env, environ)
		if err := config.Load(new(C), env); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Replica is a running replica.
type Replica struct {
	// API and Internal are the base URLs of the listeners "api" and "internal"; empty without such a listener.
	API, Internal string
	// Admin is the base URL of probes and metrics.
	Admin string
	// Log holds what the replica has logged. A failing test prints it.
	Log *waittest.Log

	stop func() error
}

// Run starts a replica of a service on the database dsn, with listeners on free ports and the variables of the maps. It
// returns when the replica is ready. The replica runs until Stop is called or the test ends.
func Run[C chassis.Config](t *testing.T, s chassis.Service[C], dsn string, environs ...map[string]string) *Replica {
	t.Helper()
	environ := make(map[string]string)
	for _, e := range environs {
		maps.Copy(environ, e)
	}

	log := new(waittest.Log)
	c, err := s.New(t.Context(), Config[C](t, dsn, environ), chassis.Process{Environ: environ, Output: log})
	if err != nil {
		t.Fatal(err)
	}

	r := &Replica{Log: log}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()

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

	waittest.Eventually(t, "the replica is ready", func() bool {
		select {
		case err := <-ended:
			ended <- err // for the cleanup
			t.Fatalf("the replica did not start: %v", err)
		default:
		}

		r.Admin = urlOf(c.AdminAddr())
		return r.Admin != "" && Get(t, r.Admin+"/readyz").Status == http.StatusOK
	})

	r.API, r.Internal = urlOf(c.Addr("api")), urlOf(c.Addr("internal"))
	return r
}

// RefusesToStart fails the test unless a replica of a service on the database dsn ends with an error that contains
// part.
func RefusesToStart[C chassis.Config](t *testing.T, s chassis.Service[C], dsn, part string) {
	t.Helper()
	c, err := s.New(t.Context(), Config[C](t, dsn), chassis.Process{Output: io.Discard})
	if err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := c.Run(ctx); err == nil || !strings.Contains(err.Error(), part) {
		t.Errorf("the start: %v, want %q", err, part)
	}
}

// urlOf returns the base URL of a listener; empty for nil.
func urlOf(addr net.Addr) string {
	if addr == nil {
		return ""
	}
	return "http://" + addr.String()
}

// Stop ends the replica as SIGTERM does, and returns the error of its Run. The end of the test calls it too; only the
// first call has an effect.
func (r *Replica) Stop() error { return r.stop() }

// Metrics returns the text of /metrics.
func (r *Replica) Metrics(t *testing.T) string {
	t.Helper()
	return Get(t, r.Admin+"/metrics").Body
}

// Metric returns the value of one series, named as in /metrics with its labels. A missing series fails the test.
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
