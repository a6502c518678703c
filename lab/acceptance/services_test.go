package acceptance

import (
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/lab/internal/services"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/telemetry"
)

// TestChecks runs `rowlock check` on three replicas of every service, on every
// engine that it runs on.
func TestChecks(t *testing.T) {
	t.Parallel()
	tel, err := telemetry.New(t.Context(), telemetry.Config{Service: "rowlock", Output: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range services.All() {
		for _, engine := range s.Engines {
			t.Run(s.Name+" on "+engine, func(t *testing.T) {
				t.Parallel()
				open := dbtest.Empty
				if engine == services.MySQL {
					open = dbtest.EmptyMariaDB
				}
				dsn := open(t)
				url := balanced(t, start(t, s.Name, 3, dsn, nil))
				if s.Worker != "" {
					startCommand(t, s.Name, s.Worker, 2, dsn, nil)
				}
				var out strings.Builder
				if err := services.Check(t.Context(), &out, tel, []services.Target{{Service: s.Name, URL: url}}); err != nil {
					t.Error(err)
				}
				t.Log(out.String())
			})
		}
	}
}

// TestRollingRestart sends SIGTERM to one replica after the other behind a
// balancer, which has nothing but their readiness to go by: no client notices.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	for _, service := range services.Names() {
		t.Run(service, func(t *testing.T) {
			t.Parallel()
			set := start(t, service, 2, dbtest.Empty(t), map[string]string{"SHUTDOWN_DELAY": "1s", "PROCESSOR_LATENCY": "20ms"})
			load := services.Load{Target: services.Target{Service: service, URL: balanced(t, set)}, Rate: 100, Clients: 8}
			stop, reports := make(chan struct{}), make(chan *services.Report, 1)
			go func() {
				report, err := services.Drive(t.Context(), load, stop)
				if err != nil {
					t.Error(err)
				}
				reports <- report
			}()
			for _, r := range set.Replicas() {
				if err := r.Terminate(); err != nil {
					t.Error(err)
				}
				within(t, 30*time.Second, r.Name()+" is back", func() bool {
					status := r.Status()
					return status.Ready && status.Starts == 2
				})
			}
			close(stop)
			if r := <-reports; r == nil || r.Fault != "" || r.Failed() > 0 || r.Redials > 0 || r.Acknowledged < 50 {
				t.Errorf("the load met %+v", r)
			}
		})
	}
}
