package prove

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
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

// kinds holds every service that has a workload.
var kinds = map[string]kind{} //nolint:gochecknoglobals // filled before main, by register

// register adds a service to kinds, and returns true, for a variable.
func register(name string, k kind) bool { //nolint:unparam // it stands in the declaration of a variable
	for i := range k.mutants {
		k.mutants[i].Service = name
	}
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
	// lockWait is the longest wait for a lock of the replicas.
	lockWait time.Duration
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
	db       *sqldb.DB // the service's database, by its administrator
	pictures string    // the folder for the checker's pictures
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
	f.addf("answers", len(codes) == 0, "%d operations, answers without cause: %v", len(f.ops), codes)
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
