package prove

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/rowlock/rowlock/lab/internal/fault"
	"github.com/rowlock/rowlock/lab/internal/targets"
)

// Window schedules the injection of one kind of fault.
type Window struct {
	Name   string        `json:"name"`
	For    time.Duration `json:"for_ns"`
	Events []fault.Event `json:"events"`
	// Dose is 1, or 2 when the window is repeated because the fault had no effect.
	Dose int `json:"dose"`
	// Loses says that acknowledged changes must be lost, and that the window holds when the proof notices it.
	Loses bool `json:"loses,omitempty"`

	shape shape
}

// shape describes a kind of window.
type shape struct {
	name string
	// pooler says that the services reach the database by pgbouncer.
	pooler bool
	// owner says that only the owner of the PostgreSQL server can inject the fault.
	owner bool
	// maria says that services on MariaDB take part: the fault needs nothing between
	// them and their server.
	maria bool
	// only names the service that takes part alone, "" is all, and environ what its replicas are started with.
	only    string
	environ map[string]string
	// servers are the window's own; with "" it runs on the servers of the run. A window with its own servers runs only
	// when it is named.
	servers Servers
	// commits says that only services that send COMMIT have to show the effects.
	commits bool
	// parts is how many times as long as others the window is, pause how many times as long its clients rest between two
	// operations, and clients how many times as many there are; 0 stands for 1.
	parts, pause, clients int
	// events makes the events.
	events plan
	// effects are demands on the fault, not on the services: what it must be seen to do.
	effects []effect
}

// Servers says which servers a window needs for itself.
type Servers string

// The servers of a window.
const (
	// Synchronous is a primary that confirms what its standby has.
	Synchronous Servers = "synchronous"
	// HeldBack is a primary whose standby lacks the last changes when it is promoted.
	HeldBack Servers = "held back"
	// Managed are a primary and a synchronous standby that an HA manager runs.
	Managed Servers = "managed"
	// Distributed are a Citus coordinator and two workers. All windows that need them run on the same.
	Distributed Servers = "citus"
)

// plan returns the events of a window of length l; a double dose has more of them, or longer ones.
type plan func(r *rand.Rand, l time.Duration, dose int) []fault.Event

// The names of the fault windows that other code mentions.
const (
	windowNone     = "none"
	windowKill     = "kill"
	windowTerm     = "term"
	windowBackends = "backends"
	windowReplies  = "replies"
	windowCommits  = "commits"
	windowRestart  = "restart"
	windowPooler   = "pooler"
	windowSlow     = "slow-processor"
	windowStop     = "stop"
	windowHeld     = "held"
	windowHostile  = "hostile"
	windowFailover = "failover"
	windowLossy    = "failover-async"
	windowManaged  = "ha"
)

// The names of the fault windows on a Citus cluster.
const (
	windowCitusNone        = "citus-none"
	windowCitusWorker      = "citus-worker"
	windowCitusCoordinator = "citus-coordinator"
	windowCitusReplies     = "citus-replies"
	windowCitusMove        = "citus-move"
	windowCitusGrow        = "citus-grow"
)

// shapes returns the windows in the order of a run.
func shapes() []shape { return slices.Concat(usual(), paired(), distributed()) }

// usual returns the windows that run on the servers of the run.
func usual() []shape {
	return []shape{
		{name: windowNone, maria: true, events: none},
		{
			name: windowKill, maria: true, events: every(2*time.Second, fault.Kill),
			effects: []effect{did(fault.Kill, 1), {outcomeUnknown, 1}},
		},
		{
			name: windowTerm, maria: true, events: every(4*time.Second, fault.Terminate),
			effects: []effect{did(fault.Terminate, 2)},
		},
		{
			name: windowBackends, maria: true, events: every(200*time.Millisecond, fault.Backend),
			effects: []effect{did(fault.Backend, 5)},
		},
		{
			name: windowReplies, events: every(500*time.Millisecond, fault.CutReply),
			effects: []effect{did(fault.CutReply, 5)},
		},
		{
			name: windowCommits, commits: true, events: every(500*time.Millisecond, fault.CutCommit),
			effects: []effect{did(fault.CutReply, 3)},
		},
		{
			name: windowRestart, maria: true, owner: true, events: every(restarts, fault.RestartDB),
			effects: []effect{did(fault.RestartDB, 2), {notApplied, 1}},
		},
		{
			name: windowSlow, only: targets.Payments, events: every(2*time.Second, fault.Kill),
			environ: map[string]string{
				"PROCESSOR_LATENCY": "200ms", "PROCESSOR_LATENCY_MAX": "2s", "PROCESSOR_TIMEOUT": "1500ms",
			},
			clients: 2, // they wait for the processor most of the time
			effects: []effect{did(fault.Kill, 2)},
		},
		{
			name: windowPooler, pooler: true, events: every(restarts, fault.RestartPool),
			effects: []effect{did(fault.RestartPool, 2)},
		},
		{name: "slow", events: slow, effects: []effect{did(fault.BlackHole, 1), {notInTime, 1}}},
		{name: windowStop, events: stops, effects: []effect{did(fault.Stop, 1)}},
		{
			name: windowHeld, events: lasting(every(longest, fault.LockRow), threeFifths, longest),
			effects: []effect{did(fault.LockRow, 1), {notApplied, 1}},
		},
		{
			name: "exhausted", events: lasting(every(longest, fault.Exhaust), threeFifths, longest),
			effects: []effect{did(fault.Exhaust, 1), {notApplied, 1}},
		},
		{
			name: windowHostile, parts: 4, pause: 20, events: attacks,
			effects: []effect{
				did(fault.OneByte, 1), did(fault.SlowUpload, 1), did(fault.NotReading, 1),
				did(fault.CrossSite, 1), did(fault.Malformed, 1),
			},
		},
	}
}

// paired returns the windows that run on two servers, one of which is the primary.
func paired() []shape {
	return []shape{
		{
			name: windowFailover, owner: true, servers: Synchronous, events: exactly(3, fault.Failover),
			effects: []effect{did(fault.Failover, 3), {notInTime, 1}},
		},
		{
			name: windowLossy, owner: true, servers: HeldBack, events: exactly(1, fault.Failover),
			effects: []effect{did(fault.Failover, 1)},
		},
		{
			name: windowManaged, owner: true, servers: Managed, events: exactly(10, fault.Switchover, fault.Failover),
			effects: []effect{did(fault.Switchover, 5), did(fault.Failover, 5), {notInTime, 1}},
		},
	}
}

// Names lists all windows, those of a run for which none is named first.
func Names() (list []string) {
	for _, s := range shapes() {
		list = append(list, s.name)
	}
	return list
}

// chosen reports whether the window is among those named, by its name or with all that run on such servers. A usual run
// names none.
func (s shape) chosen(names []string) bool {
	if len(names) == 0 {
		return s.servers == ""
	}
	return slices.Contains(names, s.name) || slices.Contains(names, string(s.servers))
}

// quiet is the part of a window, at its start and its end, without faults: the load
// is there before the first one and after the last.
const quiet = time.Second

const (
	// restarts is the time between two restarts of a server, in a window that is long enough.
	restarts = time.Minute
	// longest is the time from one lock, or loss of the connections, to the next: the
	// fault never lasts much longer than the timeouts.
	longest = 9 * time.Second

	// Shares of an event's part of the window for which it lasts.
	threeFifths, half, atMost = 0.6, 0.5, 0.8
)

func none(*rand.Rand, time.Duration, int) []fault.Event { return nil }

// every repeats actions in turn at the interval, at least twice.
func every(interval time.Duration, actions ...fault.Action) plan {
	return func(r *rand.Rand, l time.Duration, dose int) []fault.Event {
		n := max(2, int((l-2*quiet+interval-1)/interval))
		return exactly(n, actions...)(r, l, dose)
	}
}

// exactly has n events, whose actions take turns. Each comes in the first quarter of its part of the window. They pick
// the replicas in turn.
func exactly(n int, actions ...fault.Action) plan {
	return func(r *rand.Rand, l time.Duration, dose int) []fault.Event {
		events := make([]fault.Event, n*dose)
		part, first := (l-2*quiet)/time.Duration(len(events)), r.IntN(1<<16)
		for i := range events {
			at := quiet + time.Duration(i)*part + time.Duration(r.Int64N(int64(part/4)+1))
			events[i] = fault.Event{At: at, Action: actions[i%len(actions)], Pick: first + i}
		}
		return events
	}
}

// lasting lets each event last for a share of its part of the window, and for the limit at most. A double dose lasts
// longer instead of coming more often: an event in a shorter part would not outlast the timeouts.
func lasting(p plan, share float64, limit time.Duration) plan {
	return func(r *rand.Rand, l time.Duration, dose int) []fault.Event {
		events := p(r, l, 1)
		part := (l - 2*quiet) / time.Duration(len(events))
		share := min(share*float64(dose), atMost)
		for i := range events {
			events[i].For = min(time.Duration(share*float64(part)), limit)
		}
		return events
	}
}

// stops freezes one replica after the other, each for longer than any lease that it
// holds. Meanwhile the way to the database is slow, so that a replica is frozen in the
// middle of something.
func stops(r *rand.Rand, l time.Duration, dose int) []fault.Event {
	const slowest = 50
	return append(lasting(every(2*time.Second, fault.Stop), threeFifths, longest)(r, l, dose),
		fault.Event{At: quiet, For: l - 2*quiet, Action: fault.Latency, Pick: slowest})
}

// attacks has every attack at once, after a third of the window.
func attacks(_ *rand.Rand, l time.Duration, dose int) (events []fault.Event) {
	for range dose {
		for _, action := range []fault.Action{
			fault.OneByte, fault.SlowUpload, fault.NotReading, fault.CrossSite, fault.Malformed, fault.LockedKey, fault.Pages,
			fault.Upload,
		} {
			events = append(events, fault.Event{At: l / 3, For: l - quiet - l/3, Action: action})
		}
	}
	return events
}

// slow is latency in the first quarter and a black hole after it, which lasts longer than REQUEST_TIMEOUT, so that no
// service answers all in time.
func slow(r *rand.Rand, l time.Duration, dose int) []fault.Event {
	const blackHole, slowest = 4200 * time.Millisecond, 100
	quarter := l / 4
	hole := quarter + time.Duration(r.Int64N(int64(quarter/4)+1))
	return []fault.Event{
		{At: quiet, For: quarter - quiet, Action: fault.Latency, Pick: slowest},
		{At: hole, For: min(blackHole*time.Duration(dose), l-quiet-hole), Action: fault.BlackHole},
	}
}

// Parts returns how many times the length of a window the named windows last together, those of a usual run when none
// is named.
func Parts(names []string) (n int) {
	for _, s := range shapes() {
		if s.chosen(names) {
			n += max(s.parts, 1)
		}
	}
	return n
}

// Schedule returns the named windows, those of a usual run when none is named, each of length l or, as its shape says,
// longer. The same seed gives the same schedule of a window, whichever others are named.
func Schedule(seed uint64, l time.Duration, names []string) ([]Window, error) {
	for _, name := range names {
		if !slices.ContainsFunc(shapes(), func(s shape) bool { return s.chosen([]string{name}) }) {
			return nil, fmt.Errorf("there is no fault %q; there is %s", name, strings.Join(Names(), ", "))
		}
	}
	var windows []Window
	for _, s := range shapes() {
		if s.chosen(names) {
			windows = append(windows, s.window(seed, l, 1))
		}
	}
	return windows, nil
}

// window returns one window, which has its own random source.
func (s shape) window(seed uint64, l time.Duration, dose int) Window {
	l *= time.Duration(max(s.parts, 1))
	events := s.events(newRandom(seed, s.name, dose), l, dose)
	slices.SortStableFunc(events, func(a, b fault.Event) int { return int(a.At - b.At) })
	return Window{Name: s.name, For: l, Events: events, Dose: dose, Loses: s.servers == HeldBack, shape: s}
}

// doubled returns the window with a double dose.
func (w Window) doubled(seed uint64) Window {
	return w.shape.window(seed, w.For/time.Duration(max(w.shape.parts, 1)), 2*w.Dose)
}

// Has reports whether the service takes part.
func (w Window) Has(service string) bool {
	return (w.shape.only == "" || w.shape.only == service) && (w.Servers() != Distributed || kinds[service].citus != nil)
}

// Servers returns which servers the window needs for itself, "" for none.
func (w Window) Servers() Servers { return w.shape.servers }

// Groups divides the windows by the servers that they run on: those of the run first, then each one with its own, then
// all that run on a Citus cluster.
func Groups(windows []Window) (groups [][]Window) {
	for _, w := range windows { // which are in that order
		last := len(groups) - 1
		shared := w.Servers() == "" || w.Servers() == Distributed
		if shared && last >= 0 && groups[last][0].Servers() == w.Servers() {
			groups[last] = append(groups[last], w)
		} else {
			groups = append(groups, []Window{w})
		}
	}
	return groups
}

// NeedsOwner reports whether only the owner of the PostgreSQL server can inject the fault.
func (w Window) NeedsOwner() bool { return w.shape.owner }

// newRandom returns a random source that is the same for the same words.
func newRandom(words ...any) *rand.Rand {
	return rand.New(rand.NewChaCha8(sha256.Sum256(fmt.Appendln(nil, words...))))
}

// String returns the window's schedule in one line.
func (w Window) String() string {
	const most = 6
	if more := len(w.Events) - most; more > 0 {
		return fmt.Sprintf("%-10s %v and %d more", w.Name, w.Events[:most], more)
	}
	if w.Loses {
		return fmt.Sprintf("%-10s %v, and holds when the proof notices lost changes", w.Name, w.Events)
	}
	return fmt.Sprintf("%-10s %v", w.Name, w.Events)
}

// onCitus describes how a service is proven on a Citus cluster.
type onCitus struct {
	// open replaces the open of the kind, for a load of what the service takes there.
	open func(ctx context.Context, s site) (clients, error)
	// writes replaces the writes of the kind, also for the statements that the coordinator sends to workers.
	writes []string
}

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
			// A worker must be away for longer than requests last.
			name: windowCitusWorker, parts: 3, events: lasting(exactly(3, fault.KillWorker), half, 5*time.Second),
			effects: []effect{did(fault.KillWorker, 3), {notInTime, 1}},
		},
		{
			name: windowCitusCoordinator, parts: 2, events: exactly(2, fault.RestartDB),
			effects: []effect{did(fault.RestartDB, 2), {notInTime, 1}},
		},
		{
			name:    windowCitusReplies,
			events:  every(500*time.Millisecond/3, fault.CutWorker, fault.CutWorkerCommit, fault.CutReply),
			effects: []effect{did(fault.CutWorker, 5), did(fault.CutReply, 5)},
		},
		{
			// A move takes a second or more on a busy machine, and there are six.
			name: windowCitusMove, parts: 2, events: exactly(3, fault.MoveShard),
			effects: []effect{did(fault.MoveShard, 2)},
		},
		{
			// Writers wait while their shard moves: on a busy machine for longer than in other windows, and no request may fail.
			name: windowCitusGrow, parts: 2, events: exactly(1, fault.AddWorker),
			environ: map[string]string{"DB_LOCK_TIMEOUT": "2s", "DB_STATEMENT_TIMEOUT": "2400ms"},
			effects: []effect{did(fault.AddWorker, 1), did(fault.MoveShard, 2)},
		},
	}

	for i := range shapes {
		shapes[i].owner, shapes[i].servers = true, Distributed
	}
	return shapes
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
