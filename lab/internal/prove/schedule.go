package prove

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Action is one thing that is done to the system.
type Action string

// The actions. Those that end in "on" last until their "off" or the window's end.
const (
	Kill         Action = "kill -9"             // a replica of each service
	Terminate    Action = "SIGTERM"             // a replica of each service
	Backend      Action = "terminate backend"   // a connection of each service, at the server
	CutReply     Action = "cut after statement" // the reply to the next statement of each service
	CutCommit    Action = "cut after COMMIT"    // the reply to the next COMMIT of each service
	RestartDB    Action = "restart PostgreSQL"  // immediately, with recovery
	RestartPool  Action = "restart pgbouncer"   // its clients are cut off
	LatencyOn    Action = "latency on"          // of every message to the database
	LatencyOff   Action = "latency off"         //
	BlackHoleOn  Action = "black hole on"       // nothing passes between services and database
	BlackHoleOff Action = "black hole off"
	StopOn       Action = "SIGSTOP"             // a replica of each service
	StopOff      Action = "SIGCONT"             // the same replica
	HoldOn       Action = "hold a row"          // of each service, by a stranger's transaction
	HoldOff      Action = "let the row go"      //
	ExhaustOn    Action = "exhaust connections" // each service's role may open none, and has none
	ExhaustOff   Action = "allow connections"   //
)

// Event is an action at a time.
type Event struct {
	At     time.Duration `json:"at_ns"` // since the window's beginning
	Action Action        `json:"action"`
	// Pick chooses the replica, or how a connection is cut, modulo what there is; of a
	// latency it is the most milliseconds.
	Pick int `json:"pick"`
}

// String is one event of the printed schedule.
func (e Event) String() string {
	return fmt.Sprintf("%.1fs %s (%d)", e.At.Seconds(), e.Action, e.Pick)
}

// Window is a time in which one kind of fault is done to the system.
type Window struct {
	Name   string        `json:"name"`
	For    time.Duration `json:"for_ns"`
	Events []Event       `json:"events"`
	// Pooler says that the services reach the database by pgbouncer.
	Pooler bool `json:"pooler,omitempty"`
	// Owner says that it takes the owner of the PostgreSQL server to do this.
	Owner bool `json:"owner,omitempty"`
	// Dose is 1, or 2 when the window is repeated because the fault had no effect.
	Dose int `json:"dose"`
}

// Shape makes the events of a window of length l, with a dose.
type shape struct {
	name   string
	pooler bool
	owner  bool // of the server, it takes
	events func(r *rand.Rand, l time.Duration, dose int) []Event
}

// The names of the windows.
const (
	windowNone      = "none"
	windowKill      = "kill"
	windowTerm      = "term"
	windowBackends  = "backends"
	windowReplies   = "replies"
	windowCommits   = "commits"
	windowRestart   = "restart"
	windowPooler    = "pooler"
	windowSlow      = "slow"
	windowStop      = "stop"
	windowHeld      = "held"
	windowExhausted = "exhausted"
)

// shapes are the windows, in the order of a run.
func shapes() []shape {
	return []shape{
		{name: windowNone, events: func(*rand.Rand, time.Duration, int) []Event { return nil }},
		{name: windowKill, events: regularly(3*time.Second, Kill)},
		{name: windowTerm, events: rolling},
		{name: windowBackends, events: regularly(200*time.Millisecond, Backend)},
		{name: windowReplies, events: regularly(500*time.Millisecond, CutReply)},
		{name: windowCommits, events: regularly(500*time.Millisecond, CutCommit)},
		{name: windowRestart, owner: true, events: restarts},
		{name: windowPooler, pooler: true, events: poolerRestarts},
		{name: windowSlow, events: slow},
		{name: windowStop, events: stops},
		{name: windowHeld, events: held},
		{name: windowExhausted, events: exhausted},
	}
}

// Names lists the windows.
func Names() []string {
	names := make([]string, 0, len(shapes()))
	for _, s := range shapes() {
		names = append(names, s.name)
	}
	return names
}

// quiet is the part of a window, at its beginning and its end, in which nothing
// is done: so the load is there before the first fault and after the last.
const quiet = time.Second

// regularly repeats an action, jittered by a quarter of the interval.
func regularly(every time.Duration, action Action) func(*rand.Rand, time.Duration, int) []Event {
	return func(r *rand.Rand, l time.Duration, dose int) []Event {
		var events []Event
		step := every / time.Duration(dose)
		for at := quiet; at < l-quiet; at += step {
			events = append(events, Event{At: at + time.Duration(r.Int64N(int64(step/4)+1)), Action: action, Pick: r.IntN(1 << 16)})
		}
		return events
	}
}

// rolling ends the replicas in order, one after the other.
func rolling(r *rand.Rand, l time.Duration, dose int) []Event {
	events := regularly(4*time.Second, Terminate)(r, l, dose)
	for i := range events {
		events[i].Pick = i
	}
	return events
}

func restarts(r *rand.Rand, l time.Duration, dose int) []Event {
	return spread(r, l, 2*dose, RestartDB)
}

func poolerRestarts(r *rand.Rand, l time.Duration, dose int) []Event {
	return spread(r, l, 2*dose, RestartPool)
}

// spread does an action n times in about equal parts of the window.
func spread(r *rand.Rand, l time.Duration, n int, action Action) []Event {
	part := (l - 2*quiet) / time.Duration(n)
	events := make([]Event, 0, n)
	for i := range n {
		at := quiet + time.Duration(i)*part + time.Duration(r.Int64N(int64(part/4)+1))
		events = append(events, Event{At: at, Action: action, Pick: r.IntN(1 << 16)})
	}
	return events
}

// blackHole is how long nothing passes; longer than DB_LOCK_TIMEOUT would be, so
// that it is seen from the outside what the services do then.
const blackHole = 3 * time.Second

// slow is latency in the first third and a black hole in the rest.
func slow(r *rand.Rand, l time.Duration, dose int) []Event {
	third := l / 3
	hole := third + time.Duration(r.Int64N(int64(third/4)+1))
	return []Event{
		{At: quiet, Action: LatencyOn, Pick: 100},
		{At: third, Action: LatencyOff},
		{At: hole, Action: BlackHoleOn},
		{At: min(hole+blackHole*time.Duration(dose), l-quiet), Action: BlackHoleOff},
	}
}

// stops freezes one replica after the other, each for longer than any lease that it
// holds. Meanwhile the way to the database is slow, so that a replica is frozen in
// the middle of something.
func stops(r *rand.Rand, l time.Duration, dose int) []Event {
	const each = 2 * time.Second
	n := max(2, int((l-2*quiet)/each)) * dose
	part := (l - 2*quiet) / time.Duration(n)
	events := append(make([]Event, 0, 2+2*n), Event{At: quiet, Action: LatencyOn, Pick: 50}, Event{At: l - quiet, Action: LatencyOff})
	for i := range n {
		from, pick := quiet+time.Duration(i)*part+time.Duration(r.Int64N(int64(part/8)+1)), r.IntN(1<<16)
		events = append(events, Event{At: from, Action: StopOn, Pick: pick}, Event{At: from + part*3/5, Action: StopOff, Pick: pick})
	}
	return sorted(events)
}

// held locks a row for longer than any timeout, again and again.
func held(r *rand.Rand, l time.Duration, dose int) []Event {
	return alternately(r, l, dose, HoldOn, HoldOff)
}

func exhausted(r *rand.Rand, l time.Duration, dose int) []Event {
	return alternately(r, l, dose, ExhaustOn, ExhaustOff)
}

// alternately switches something on for three fifths of each part of the window: two
// parts, more in a long one, so that it never lasts much longer than the timeouts.
func alternately(r *rand.Rand, l time.Duration, dose int, on, off Action) []Event {
	const longest = 9 * time.Second
	n := max(1+dose, int((l-2*quiet)/longest)*dose)
	events := make([]Event, 0, 2*n)
	part := (l - 2*quiet) / time.Duration(n)
	for i := range n {
		from := quiet + time.Duration(i)*part + time.Duration(r.Int64N(int64(part/8)+1))
		events = append(events, Event{At: from, Action: on, Pick: r.IntN(1 << 16)}, Event{At: from + part*3/5, Action: off})
	}
	return events
}

func sorted(events []Event) []Event {
	slices.SortStableFunc(events, func(a, b Event) int { return int(a.At - b.At) })
	return events
}

// Schedule makes the windows that are named, all when none is, each of length l.
// The same seed gives the same schedule, whichever windows are chosen.
func Schedule(seed uint64, l time.Duration, names []string) ([]Window, error) {
	for _, name := range names {
		if !slices.Contains(Names(), name) {
			return nil, fmt.Errorf("there is no fault %q; there is %s", name, strings.Join(Names(), ", "))
		}
	}
	var windows []Window
	for _, s := range shapes() {
		if len(names) == 0 || slices.Contains(names, s.name) {
			windows = append(windows, s.window(seed, l, 1))
		}
	}
	return windows, nil
}

// window makes one window. Each has a random source of its own.
func (s shape) window(seed uint64, l time.Duration, dose int) Window {
	var name uint64
	for _, b := range []byte(s.name) {
		name = name*257 + uint64(b)
	}
	r := newRandom(seed, name, uint64(dose))
	return Window{Name: s.name, For: l, Pooler: s.pooler, Owner: s.owner, Events: sorted(s.events(r, l, dose)), Dose: dose}
}

// newRandom is a random source that is the same for the same numbers.
func newRandom(seed uint64, more ...uint64) *rand.Rand {
	var other uint64
	for _, n := range more {
		other = other*1_000_003 + n
	}
	return rand.New(rand.NewPCG(seed, other))
}

// again is the same window with a double dose.
func (w Window) again(seed uint64) Window {
	for _, s := range shapes() {
		if s.name == w.Name {
			return s.window(seed, w.For, 2*w.Dose)
		}
	}
	return w
}

// String is the window's schedule in one line.
func (w Window) String() string {
	const most = 6
	var b strings.Builder
	_, _ = fmt.Fprintf(&b, "%-10s", w.Name)
	for i, e := range w.Events {
		if i == most {
			_, _ = fmt.Fprintf(&b, " ... %d more", len(w.Events)-most)
			break
		}
		_, _ = fmt.Fprintf(&b, " %s;", e)
	}
	return b.String()
}
