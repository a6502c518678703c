package prove

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rowlock/rowlock/lab/internal/fault"
)

// onCitus describes how a service is proven on a Citus cluster.
type onCitus struct {
	// open is that of the kind, for a load of what the service takes there.
	open func(ctx context.Context, s site) (clients, error)
	// writes is that of the kind, also for the statements that the coordinator sends to workers.
	writes []string
}

// RunsOnCitus reports whether the service takes part in the windows on a Citus cluster.
func RunsOnCitus(name string) bool { return kinds[name].citus != nil }

// forCitus returns the kind as it is on a Citus cluster.
func (k kind) forCitus() kind {
	k.open, k.writes, k.prepare = k.citus.open, k.citus.writes, nil
	return k
}

// distributed returns the windows that run on a Citus cluster.
func distributed() []shape {
	shapes := []shape{
		{name: windowCitusNone, events: none},
		{
			// A worker is to be away for longer than requests last.
			name: windowCitusWorker, parts: 3, events: away(3, fault.KillWorker),
			effects: []effect{did(fault.KillWorker, 3), {notInTime, 1}},
		},
		{
			name: windowCitusCoordinator, parts: 2, events: exactly(2, fault.RestartDB),
			effects: []effect{did(fault.RestartDB, 2), {notInTime, 1}},
		},
		{
			name:    windowCitusReplies,
			events:  each(500*time.Millisecond, fault.CutWorker, fault.CutWorkerCommit, fault.CutReply),
			effects: []effect{did(fault.CutWorker, 5), did(fault.CutReply, 5)},
		},
		{
			// A move takes a second or more on a busy machine, and there are six.
			name: windowCitusMove, parts: 2, events: exactly(3, fault.MoveShard),
			effects: []effect{did(fault.MoveShard, 2)},
		},
		{
			// Writers wait while their shard moves: on a busy machine for longer than in other windows, and no request may fail.
			name: windowCitusGrow, parts: 2, events: exactly(1, fault.AddWorker), lockWait: longestMove,
			environ: map[string]string{"DB_LOCK_TIMEOUT": longestMove.String(), "DB_STATEMENT_TIMEOUT": "2400ms"},
			effects: []effect{did(fault.AddWorker, 1), did(fault.MoveShard, 2)},
		},
	}
	for i := range shapes {
		shapes[i].owner, shapes[i].servers = true, Distributed
	}
	return shapes
}

// longestMove is how long writers may wait for a shard that moves.
const longestMove = 2 * time.Second

// away repeats an action n times, each of which lasts for half of its part of the window, and 5 s at most.
func away(n int, action fault.Action) plan {
	return func(r *rand.Rand, l time.Duration, dose int) []fault.Event {
		events := exactly(n, action)(r, l, dose)
		for i := range events {
			events[i].For = min((l-2*quiet)/time.Duration(2*len(events)), 5*time.Second)
		}
		return events
	}
}

// each repeats every action at the interval.
func each(interval time.Duration, actions ...fault.Action) plan {
	return func(r *rand.Rand, l time.Duration, dose int) (events []fault.Event) {
		for _, action := range actions {
			events = append(events, every(interval, action)(r, l, dose)...)
		}
		return events
	}
}

// recovered demands that no transaction stays prepared when the faults have ended.
func (p *prover) recovered(ctx context.Context) ([]Check, error) {
	if p.Citus == nil {
		return nil, nil
	}
	left, err := p.Citus.Recovered(ctx)
	if err != nil {
		return nil, fmt.Errorf("look for prepared transactions: %w", err)
	}
	return []Check{check("prepared transactions", left == 0, "%d are left on the nodes", left)}, nil
}

// deadlocks returns how many deadlocks the servers have found.
func (p *prover) deadlocks(ctx context.Context) (n int, err error) {
	const query = `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`
	if p.Citus != nil {
		return p.Citus.OnAllNodes(ctx, query)
	}
	err = p.injector.DB.GetContext(ctx, &n, query)
	return n, err
}
