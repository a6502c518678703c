package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/rowlock/rowlock/services/events/internal/event"
	"github.com/rowlock/rowlock/services/events/internal/metrics"
)

// watch measures the backlog. Every replica and every worker runs one, so that the metrics are right even when no
// worker is left. It reads only the pending events.
type watch struct {
	queue   event.Queue
	metrics *metrics.Metrics
	log     *slog.Logger
}

const watchInterval = 10 * time.Second

// count sets the metrics to the backlog, or marks them as unknown.
func (w *watch) count(ctx context.Context) {
	b, err := w.queue.Backlog(ctx)
	if err == nil {
		w.metrics.Backlog(b)
		return
	}
	w.metrics.BacklogUnknown()
	if ctx.Err() == nil { // otherwise the process is stopping
		w.log.WarnContext(ctx, "the pending events could not be counted", slog.Any("error", err))
	}
}
