package app

import (
	"context"
	"time"

	"github.com/rowlock/rowlock/services/events/internal/event"
	"github.com/rowlock/rowlock/services/events/internal/metrics"
)

const watchInterval = 10 * time.Second

// measure sets the metrics to the backlog, or marks them as unknown. Every replica and every worker does so, and the
// metrics are right even when no worker is left. It reads only the pending events.
func measure(ctx context.Context, queue event.Queue, m *metrics.Metrics) error {
	b, err := queue.Backlog(ctx)
	if err != nil {
		m.BacklogUnknown()
		return err
	}
	m.Backlog(b)
	return nil
}
