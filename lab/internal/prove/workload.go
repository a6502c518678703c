package prove

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/rowlock/rowlock/platform/sqldb"
)

// Workload is what the clients of one service do in one window, and how what came
// of it is judged.
type Workload interface {
	// Step does one operation, or a few that belong together, and records them.
	// Many goroutines call it at once, each with a client number and a random
	// source of its own.
	Step(ctx context.Context, client int, random *rand.Rand)
	// Probe sends one harmless request that needs the database; nil means that it
	// was answered as it should be.
	Probe(ctx context.Context) error
	// Settle comes when the faults are over and the clients have ended: reads what
	// stands at the end and settles what can be settled.
	Settle(ctx context.Context) error
	// Check judges the window. db is the services' database, read by a superuser.
	Check(ctx context.Context, db *sqldb.DB, pictures string) ([]Check, error)
	// Hold prepares what a stranger's transaction is to hold.
	Hold(ctx context.Context) Holding
	// Signs counts what the window was to provoke, by name: that a key was used again
	// after its end, say. The demands on the fault look at them.
	Signs() map[string]int
}

// Holding is a row that a stranger's transaction holds for a while.
type Holding struct {
	// Statement locks it; "" where there is none yet.
	Statement string
	// Locked is called when it is locked, Released just before it is let go. Both may be nil.
	Locked, Released func()
	// Commit says that the stranger's change stands, and is not rolled back.
	Commit bool
}

// Check is one line of the verdict.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	// Picture is the file that shows a violation, if any.
	Picture string `json:"picture,omitempty"`
}

func check(name string, ok bool, format string, args ...any) Check {
	return Check{Name: name, OK: ok, Detail: fmt.Sprintf(format, args...)}
}

// The names of the services.
const (
	serviceCounts   = "counts"
	serviceEvents   = "events"
	serviceIidy     = "iidy"
	servicePayments = "payments"
	servicePyggpot  = "pyggpot"
)

// kind is a service that can be proven: how its workload of one window is made.
type kind func(c *Caller, h *History, prefix string) Workload

func kinds() map[string]kind {
	return map[string]kind{
		serviceCounts:   newCounts,
		serviceEvents:   newEvents,
		serviceIidy:     newIidy,
		servicePayments: newPayments,
		EventsOnMariaDB: newMariaEvents,
		servicePyggpot:  newPots,
	}
}

// keys hands out the keys that the clients work on at the moment. A key that has
// seen enough is replaced, so that the checker can decide each.
type keys struct {
	prefix string

	mu     sync.Mutex
	made   int
	active []*keyState
}

type keyState struct {
	name         string
	ops, unknown int
}

func newKeys(prefix string, active int) *keys {
	k := &keys{prefix: prefix}
	for range active {
		k.active = append(k.active, k.fresh())
	}
	return k
}

func (k *keys) fresh() *keyState {
	k.made++
	return &keyState{name: fmt.Sprintf("%s-%04d", k.prefix, k.made)}
}

// pick returns one of the active keys and counts an operation on it.
func (k *keys) pick(random *rand.Rand) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	i := random.IntN(len(k.active))
	state := k.active[i]
	if state.ops >= maxOps || state.unknown >= maxUnknown {
		state = k.fresh()
		k.active[i] = state
	}
	state.ops++
	return state.name
}

// use counts an operation on a key that was picked before; false when it has been
// replaced meanwhile.
func (k *keys) use(name string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, state := range k.active {
		if state.name == name && state.ops < maxOps && state.unknown < maxUnknown {
			state.ops++
			return true
		}
	}
	return false
}

// unknown counts an operation on the key whose outcome nobody knows.
func (k *keys) unknown(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, state := range k.active {
		if state.name == name {
			state.unknown++
		}
	}
}

// first returns the name of an active key.
func (k *keys) first() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.active[0].name
}

// all returns the names of all keys that were handed out.
func (k *keys) all() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	names := make([]string, k.made)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%04d", k.prefix, i+1)
	}
	return names
}

// firsts are things that the first client who wants one makes, while others that want
// the same wait for it.
type firsts[T any] struct {
	mu   sync.Mutex
	made map[string]*first[T]
}

type first[T any] struct {
	mu    sync.Mutex
	made  bool
	thing T
}

// get returns the thing of a name, made by the function unless it was already. The
// function may say that another client is to try again.
func (f *firsts[T]) get(name string, create func() (thing T, final bool)) T {
	f.mu.Lock()
	if f.made == nil {
		f.made = map[string]*first[T]{}
	}
	one := f.made[name]
	if one == nil {
		one = &first[T]{}
		f.made[name] = one
	}
	f.mu.Unlock()
	one.mu.Lock()
	defer one.mu.Unlock()
	if one.made {
		return one.thing
	}
	thing, final := create()
	if final {
		one.thing, one.made = thing, true
	}
	return thing
}

// all are the things that were made, by name.
func (f *firsts[T]) all() map[string]T {
	f.mu.Lock()
	defer f.mu.Unlock()
	things := make(map[string]T, len(f.made))
	for name, one := range f.made {
		one.mu.Lock()
		if one.made {
			things[name] = one.thing
		}
		one.mu.Unlock()
	}
	return things
}

// Provable lists the services that there is a workload of.
func Provable() []string { return slices.Sorted(maps.Keys(kinds())) }
