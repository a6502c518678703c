package prove

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/jmoiron/sqlx"

	rowlock "github.com/rowlock/rowlock/client"
	"github.com/rowlock/rowlock/lab/internal/fault"
	"github.com/rowlock/rowlock/lab/internal/history"
	"github.com/rowlock/rowlock/lab/internal/targets"
	"github.com/rowlock/rowlock/platform/sqldb"
)

// kind describes how a service is proven. Its file registers it.
type kind struct {
	// open returns the workload of one window.
	open func(ctx context.Context, s site) (clients, error)
	// writes holds parts of the SQL statements that make the changes which clients ask for. Each such statement contains
	// one.
	writes []string
	// changes reports whether an operation that was answered has changed something.
	changes func(op history.Op) bool
	// singles reports that every change is a single statement, so that no COMMIT is sent.
	singles bool
	// signs lists what the service's workload has to count at least once, by the window.
	signs map[string][]string
	// mutants are the known mistakes that the proof must find in the service.
	mutants []Mutant
	// citus is how the service is proven on a Citus cluster; nil where it does not run on one.
	citus *onCitus
	// inFlight is MAX_IN_FLIGHT of a replica where a few would refuse a crowd of the service's clients; 0 stands for 32.
	inFlight int
	// attack prepares what the attackers of one window attack, through their own site.
	attack func(ctx context.Context, v *victim, s site) error
	// prepare is called once before a run; nil when there is nothing to prepare.
	prepare func(ctx context.Context, db *sqldb.DB) error
}

// slots returns MAX_IN_FLIGHT of a replica: so few that attackers could take all of them and leave the machine's
// processors to others.
func (k kind) slots() int { return cmp.Or(k.inFlight, 32) }

// kinds holds every service that is proven.
var kinds = map[string]kind{}

// register adds a service to kinds. Its result has no meaning: it lets a file register at package level.
func register(name string, k kind) bool { //nolint:unparam // a variable needs a value
	kinds[name] = k
	return true
}

// clients act as the clients of one service in one window, and check the outcome.
type clients interface {
	// step does one operation, or a few that belong together, and records them. Clients call it at the same time, each
	// with its number and its own random source.
	step(ctx context.Context, client int, random *rand.Rand)
	// probe sends one harmless request that needs the database, and returns nil when it
	// is answered as it should be.
	probe(ctx context.Context) error
	// lock locks a row that the clients want in a transaction, and calls hold.
	lock(ctx context.Context, tx *sqlx.Tx, hold fault.Hold) error
	// settle is called when the faults have ended and the clients too. It resolves what
	// can be resolved and reads what stands at the end.
	settle(ctx context.Context) error
	// check checks the window.
	check(ctx context.Context, f *findings)
}

// settling is the number of the client that settles.
const settling = -1

// site says where a workload sends its requests, and records them.
type site struct {
	window  string // its name
	url     string
	client  *http.Client
	history *history.History
	prefix  string    // of the names of its keys
	maria   bool      // the service is on MariaDB
	db      *sqldb.DB // the service's database, by an administrator
	// resolved is how many lost answers the replicas had resolved before the window.
	resolved float64
	// metric returns the sum of a metric of the service's replicas, and the largest value.
	metric func(ctx context.Context, name string) (sum, most float64)
}

// send runs an operation and returns it with its times, outcome and output.
func (s site) send(client int, key string, input any, do func() (any, error)) history.Op {
	op := history.Op{Client: client, Key: key, Input: input, Call: s.history.Now()}
	output, err := do()
	op.Return = s.history.Now()
	op.Outcome, op.Code = targets.Classify(err)
	if err == nil {
		op.Output = output
	}
	return op
}

// record runs an operation and adds it to the history.
func (s site) record(client int, key string, input any, do func() (any, error)) history.Op {
	op := s.send(client, key, input, do)
	s.history.Add(op)
	return op
}

// badAnswer returns the error of an answer that lacks what every answer has.
func badAnswer(what string) error { return &rowlock.Error{Code: rowlock.ErrBadAnswer, Detail: what} }

// together calls do n times at once, with clients' numbers that are the caller's alone.
func together(n, client int, do func(client int)) {
	const clientsAtMost = 100
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { do(client + (i+1)*clientsAtMost) })
	}
	all.Wait()
}

// findings collects what is found in a window of a service.
type findings struct {
	ops      []history.Op
	began    time.Duration // the window, in the history's time
	db       *sqldb.DB     // the service's database, by its administrator
	pictures string        // the folder for the checker's pictures
	checks   []Check
	signs    map[string]int // what the window was to provoke
	err      error          // the first one of the database
}

func (f *findings) addf(name string, ok bool, format string, args ...any) {
	f.checks = append(f.checks, check(name, ok, format, args...))
}

// linearizable names a check.
const linearizable = "linearizable"

// histories checks every key's history against the model.
func (f *findings) histories(model porcupine.Model) {
	ok, detail, picture := history.Check(model, f.ops, f.pictures)
	f.checks = append(f.checks, Check{Name: linearizable, OK: ok, Detail: detail, Picture: picture})
}

// answers demands that no operation ended with a code for which the clients' requests give
// no cause. They give cause for those refusals alone.
func (f *findings) answers(refusals ...rowlock.Code) {
	codes := map[string]int{}
	for _, op := range f.ops {
		bad := op.Code == string(rowlock.ErrInternal) || op.Code == string(rowlock.ErrBadAnswer)
		if bad || op.Outcome == targets.Refused && !slices.Contains(refusals, rowlock.Code(op.Code)) {
			codes[op.Code]++
		}
	}
	f.addf("answers", len(codes) == 0, "%d operations, answers without cause: %s", len(f.ops), listed(codes))
}

// listed writes how often each code was answered.
func listed(codes map[string]int) string {
	var all []string
	for _, code := range slices.Sorted(maps.Keys(codes)) {
		all = append(all, fmt.Sprint(codes[code], " ", code))
	}
	return cmp.Or(strings.Join(all, ", "), "none")
}

// get reads a row of the service's database.
func (f *findings) get(ctx context.Context, dest any, query string, args ...any) {
	if err := f.db.GetContext(ctx, dest, query, args...); err != nil && f.err == nil {
		f.err = fmt.Errorf("read the database: %w", err)
	}
}

// count returns the number that the query counts.
func (f *findings) count(ctx context.Context, query string, args ...any) (n int) {
	f.get(ctx, &n, query, args...)
	return n
}

// keys hands out the keys that the clients work on, and records what they do. A key that
// has seen as many operations as the checker can take, or could not be created, is
// replaced.
type keys struct {
	site

	// create creates what a key names and returns its id; nil when there is nothing to create.
	create func(ctx context.Context, name string) (id int32, err error)

	mu     sync.Mutex
	made   []*key
	active []*key
}

// key is one key, and what was created under its name.
type key struct {
	name         string
	ops, unknown int // guarded by keys.mu

	creating sync.Once
	created  bool
	id       int32
}

func newKeys(s site, active int, create func(context.Context, string) (int32, error)) *keys {
	k := &keys{site: s, create: create}
	for range active {
		k.active = append(k.active, k.fresh())
	}
	return k
}

func (k *keys) fresh() *key {
	one := &key{name: fmt.Sprintf("%s-%04d", k.prefix, len(k.made)+1)}
	k.made = append(k.made, one)
	return one
}

// pick returns one of the active keys and counts an operation on it; nil when what it
// names could not be created. One client creates it, and the others wait.
func (k *keys) pick(ctx context.Context, random *rand.Rand) *key {
	k.mu.Lock()
	i := random.IntN(len(k.active))
	if one := k.active[i]; one.ops >= history.MaxOps || one.unknown >= history.MaxUnknown {
		k.active[i] = k.fresh()
	}

	one := k.active[i]
	one.ops++
	k.mu.Unlock()
	one.creating.Do(func() {
		var err error
		if k.create != nil {
			one.id, err = k.create(ctx, one.name)
		}
		one.created = err == nil
		if !one.created {
			k.mu.Lock()
			one.ops = history.MaxOps
			k.mu.Unlock()
		}
	})

	if !one.created {
		return nil
	}
	return one
}

// do runs an operation on a key and records it.
func (k *keys) do(client int, one *key, input any, call func() (any, error)) targets.Outcome {
	op := k.record(client, one.name, input, call)
	k.note(one, op.Outcome)
	return op.Outcome
}

// note counts an operation of unknown outcome on the key.
func (k *keys) note(one *key, outcome targets.Outcome) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if outcome == targets.Unknown {
		one.unknown++
	}
}

// first returns the name of an active key.
func (k *keys) first() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.active[0].name
}

// each calls read for every key that was handed out, and fails for one that cannot be read.
func (k *keys) each(read func(*key) targets.Outcome) error {
	k.mu.Lock()
	made := slices.Clone(k.made)
	k.mu.Unlock()
	for _, one := range made {
		if !one.created {
			continue
		}
		if outcome := read(one); outcome != targets.OK {
			return fmt.Errorf("the last read of %s is answered %s", one.name, outcome)
		}
	}
	return nil
}

// Mutant describes a known mistake, which is built into a service by a diff.
type Mutant struct {
	// Name is what rowlock mutation-test calls it.
	Name string
	// What describes the mistake in a few words.
	What string
	// Service has the mistake, and Window shows it.
	Service, Window string
	// Checks find it, of the service or of the window as a whole.
	Checks []string
}

func mutant(name, what, window string, checks ...string) Mutant {
	return Mutant{Name: name, What: what, Window: window, Checks: checks}
}

// File names the diff that makes the mistake, from the root of the source tree.
func (m Mutant) File() string { return path.Join("lab", "mutants", m.Name+".diff") }

// Mutants returns the mistakes that the proof must find.
func Mutants() (all []Mutant) {
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		for _, one := range kinds[name].mutants {
			one.Service = name
			all = append(all, one)
		}
	}
	return all
}

// FoundBy returns the failure that the mutant is expected to cause; nil when the
// report has none.
func (m Mutant) FoundBy(r *Report) *Failure {
	for _, f := range r.Failures() {
		if f.Window == m.Window && (f.Service == m.Service || f.Service == "") && slices.Contains(m.Checks, f.Name) {
			return &f
		}
	}
	return nil
}
