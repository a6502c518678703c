package prove

import (
	"context"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"

	rowlock "github.com/rowlock/rowlock/client"
	"github.com/rowlock/rowlock/lab/internal/fault"
	"github.com/rowlock/rowlock/lab/internal/history"
	"github.com/rowlock/rowlock/lab/internal/services"
	"github.com/rowlock/rowlock/lab/internal/workload"
	"github.com/rowlock/rowlock/platform/sqldb"
)

// Workload does what the clients of one service do in one window, and checks what came of it.
type Workload interface {
	// Step does one operation, or a few that belong together, and records them. Clients
	// call it at the same time, each with its number and a random source of its own.
	Step(ctx context.Context, client int, random *rand.Rand)
	// Probe sends one harmless request that needs the database, and returns nil when it
	// is answered as it should be.
	Probe(ctx context.Context) error
	// Lock prepares the row that another transaction is to lock.
	Lock(ctx context.Context) fault.Lock
	// Settle is called when the faults have ended and the clients too. It resolves what
	// can be resolved and reads what stands at the end.
	Settle(ctx context.Context) error
	// Check checks the window. db is the services' database, read by its administrator.
	Check(ctx context.Context, db *sqldb.DB, pictures string) (Findings, error)
}

// Findings hold what a workload has found in a window.
type Findings struct {
	Checks []Check
	// Signs counts what the window was to provoke, by name. The window's effects demand them.
	Signs map[string]int
}

// site says where a workload sends its requests and records them.
type site struct {
	url     string
	client  *http.Client
	history *history.History
	prefix  string // of the names of its keys
	// prepared reports that the kind's prepare was called for the database.
	prepared bool
}

// kind describes how a service is proven.
type kind struct {
	// workload returns the workload of one window.
	workload func(s site) (Workload, error)
	// writes is a part of the statements by which the service changes what its clients ask for.
	writes string
	// metrics are counted as signs, by the sign's name.
	metrics map[string]string
	// prepare is called once before a run; nil when there is nothing to prepare.
	prepare func(ctx context.Context, db *sqldb.DB) error
}

// EventsOnMariaDB names events on their second engine.
const EventsOnMariaDB = services.Events + "-mariadb"

func kinds() map[string]kind {
	return map[string]kind{
		services.Counts:   {workload: newCounts, writes: "update counts.count_values"},
		services.Events:   {workload: newEvents, writes: "update events.status", prepare: auditEvents},
		services.Iidy:     {workload: newIidy, writes: "iidy.lists"},
		services.Payments: {workload: newPayments, writes: "insert into payments."},
		EventsOnMariaDB:   {workload: newEvents},
		services.Pyggpot: {workload: newPots, writes: "update pyggpot.pot", metrics: map[string]string{
			signTaken: `rowlock_lock_conflicts_total{lock="pot",reason="taken_over"}`,
			signStale: `rowlock_lock_conflicts_total{lock="pot",reason="lost"}`,
		}},
	}
}

// Provable lists the services that there is a workload of.
func Provable() []string { return slices.Sorted(maps.Keys(kinds())) }

// The checks that several services have.
const linearizable = "linearizable"

// checkHistory checks every key's history against the model.
func checkHistory(model history.Model, ops []history.Op, pictures string) Check {
	ok, detail, picture := history.Check(model, ops, pictures)
	return Check{Name: linearizable, OK: ok, Detail: detail, Picture: picture}
}

// checkAnswers demands that no operation ended in a way, or with a code, for which the
// clients' requests give no cause.
func checkAnswers(ops []history.Op, never ...workload.Outcome) Check {
	codes := map[string]int{}
	for _, op := range ops {
		bad := op.Code == string(rowlock.ErrInternal) || op.Code == string(rowlock.ErrBadAnswer)
		if bad || slices.Contains(never, op.Outcome) {
			codes[op.Code]++
		}
	}
	return check("answers", len(codes) == 0, "%d operations, answers without cause: %v", len(ops), codes)
}

// checkRefusals demands that the only cause of a refusal is the one that the clients'
// requests give.
func checkRefusals(ops []history.Op, cause rowlock.Code) Check {
	codes, refused := map[string]int{}, 0
	for _, op := range ops {
		if op.Outcome == history.Refused {
			codes[op.Code]++
			refused++
		}
	}
	return check("refusals", refused == codes[string(cause)], "%v", codes)
}

// send runs an operation and returns it with its times, outcome and output.
func send(h *history.History, op history.Op, do func() (any, error)) history.Op {
	op.Call = h.Now()
	output, err := do()
	op.Return = h.Now()
	if op.Outcome, op.Code = workload.Classify(err); err == nil {
		op.Output = output
	}
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
