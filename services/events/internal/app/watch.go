package app

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/rowlock/rowlock/services/events/internal/event"
	"github.com/rowlock/rowlock/services/events/internal/metrics"
)

// watch looks at the backlog, on every replica and every worker: whoever is left
// tells that nobody works. It reads the pending events alone.
type watch struct {
	queue   event.Queue
	metrics *metrics.Metrics
	log     *slog.Logger
}

const watchInterval = 10 * time.Second

// run looks at once, and then at the interval, a tenth of it more or less.
func (w *watch) run(ctx context.Context) error {
	for {
		w.look(ctx)
		timer := time.NewTimer(watchInterval - watchInterval/10 + rand.N(watchInterval/5))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
	}
}

func (w *watch) look(ctx context.Context) {
	b, err := w.queue.Backlog(ctx)
	if err == nil {
		w.metrics.Backlog(b)
		return
	}
	w.metrics.BacklogUnknown()
	if ctx.Err() == nil { // else we are stopping
		w.log.WarnContext(ctx, "the pending events could not be counted", slog.Any("error", err))
	}
}
