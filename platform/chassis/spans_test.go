package chassis_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/chassis"
	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/lifecycle"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// The spans of a drain that took all its time are those that tell why: they are sent.
// The SDK reads its variables from the process, so this cannot run beside others.
func TestLastSpansAreSentAfterALongDrain(t *testing.T) {
	var received atomic.Int64
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { received.Add(1) }))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "60000") // not before the end

	p := newProbe(t, dbtest.Empty(t), nil)
	p.environ, p.cfg.ShutdownTimeout, p.cfg.ShutdownDelay = config.Environ(), 200*time.Millisecond, 0
	p.build = func(c *chassis.Chassis) {
		c.Add(lifecycle.Part{Name: "own", Stop: func(ctx context.Context) error {
			_, span := c.Telemetry().TracerProvider().Tracer("test").Start(context.WithoutCancel(ctx), "slow request")
			<-ctx.Done()
			span.End()
			return nil
		}})
	}
	r := p.run(t)
	waittest.Eventually(t, "ready", func() bool { return r.get(t, "/readyz") == http.StatusOK })
	if err := r.stop(); err != nil {
		t.Logf("stop: %v", err) // the pool may have had too little time
	}
	if received.Load() == 0 {
		t.Error("no span reached a healthy collector")
	}
}
