package live

import (
	"context"
	"database/sql"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/lab/internal/fault"
	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/lab/internal/targets"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/dbtest/faultproxy"
)

const (
	// maxRate is the highest load, in operations a second.
	maxRate = 1000
	// callers is how many operations of a service are under way at most.
	callers = 64
	// turn is how often callers begin operations.
	turn = 10 * time.Millisecond
	// slowest is the longest time that is told apart.
	slowest = time.Minute
)

// Service is a service that the page shows.
type Service struct {
	fault.Target

	balancer *local.Balancer
	rate     atomic.Int64 // operations a second that are asked for
	stream   atomic.Pointer[targets.Stream]

	begun, acknowledged, notApplied, unknown atomic.Int64

	mu     sync.Mutex
	times  *hdrhistogram.Histogram // of the operations since the last look, in microseconds
	marks  []string                // the faults since then
	frozen map[string]bool         // replicas, by name
	fault  string                  // what is wrong
}

// NewService returns a service behind a balancer; the replicas reach the database through proxy.
func NewService(name string, balancer *local.Balancer, replicas *local.Set, proxy *faultproxy.Proxy) *Service {
	s := &Service{balancer: balancer, times: newTimes(), frozen: map[string]bool{}}
	s.Name, s.Replicas, s.Proxy, s.Lock = name, replicas, proxy, s.lock
	s.Begin()
	return s
}

func newTimes() *hdrhistogram.Histogram { return hdrhistogram.New(1, slowest.Microseconds(), 2) }

// state is what a look at a service saw.
type state struct {
	Name       string    `json:"name"`
	Rate       int64     `json:"rate"`       // that is asked for
	Operations float64   `json:"operations"` // a second
	P99        float64   `json:"p99"`        // in milliseconds
	Told       int64     `json:"told"`
	Stored     int64     `json:"stored"`
	Difference int64     `json:"difference"`
	Unknown    int64     `json:"unknown"`
	NotApplied int64     `json:"not_applied"`
	Fault      string    `json:"fault"`
	Marks      []string  `json:"marks"`
	Replicas   []replica `json:"replicas"`
}

// replica is what a look at a replica saw.
type replica struct {
	Name     string  `json:"name"`
	PID      int     `json:"pid"`
	State    string  `json:"state"`
	Restarts int     `json:"restarts"`
	Requests float64 `json:"requests"` // a second
	P99      float64 `json:"p99"`      // in milliseconds
}

// look returns what is seen of the service after the time since the last look.
func (s *Service) look(ctx context.Context, db *sqldb.DB, since time.Duration) state {
	s.mu.Lock()
	now := state{
		Name: s.Name, Rate: s.rate.Load(), Operations: float64(s.times.TotalCount()) / since.Seconds(),
		P99: milliseconds(time.Duration(s.times.ValueAtQuantile(99)) * time.Microsecond), Fault: s.fault, Marks: s.marks,
	}
	s.times, s.marks = newTimes(), nil
	s.mu.Unlock()

	s.compare(ctx, db, &now)
	served := s.balancer.Served()
	for _, status := range s.Replicas.Statuses() {
		of := served[status.Name]
		now.Replicas = append(now.Replicas, replica{
			Name: status.Name, PID: status.PID, State: s.stateOf(status), Restarts: max(0, status.Starts-1),
			Requests: float64(of.Requests) / since.Seconds(), P99: milliseconds(of.P99),
		})
	}
	return now
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func (s *Service) stateOf(status local.Status) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.frozen[status.Name]:
		return "frozen"
	case status.PID == 0:
		return "dead"
	case status.Ready:
		return "ready"
	}
	return "not ready"
}

// compare compares what callers were told with what the database holds.
func (s *Service) compare(ctx context.Context, db *sqldb.DB, now *state) {
	now.Told, now.NotApplied, now.Unknown = s.acknowledged.Load(), s.notApplied.Load(), s.unknown.Load()
	stream := s.stream.Load()
	if stream == nil {
		return
	}
	rows := stream.Rows()
	if err := db.GetContext(ctx, &now.Stored, rows.Stored, rows.Args...); err != nil {
		now.Fault = "The database cannot be read."
		return
	}

	most := s.begun.Load() - now.NotApplied
	now.Difference = min(now.Stored-now.Told, 0)
	if !rows.Shared {
		now.Difference += max(now.Stored-most, 0)
	}
}

// drive begins operations at the rate that is asked for, until ctx ends, and waits for those under way.
func (s *Service) drive(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	free := make(chan struct{}, callers)
	due, last := 0.0, time.Now()
	for n := 0; fault.Wait(ctx, turn); {
		since := time.Since(last)
		last = last.Add(since)
		rate := s.rate.Load()
		if rate == 0 || !s.prepared(ctx) {
			continue
		}

		for due = min(due+float64(rate)*since.Seconds(), callers); due >= 1; due-- {
			select {
			case free <- struct{}{}:
				n++
				number := n
				all.Go(func() {
					s.operate(ctx, number)
					<-free
				})
			default: // all callers wait; the page shows a lower rate
			}
		}
	}
}

// prepared reports whether the load's rows are there. It makes them.
func (s *Service) prepared(ctx context.Context) bool {
	if s.stream.Load() != nil {
		return true
	}
	stream, err := targets.Prepare(ctx, targets.Target{Service: s.Name, URL: s.balancer.URL()})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = ""
	if err != nil {
		s.fault = "The load could not be prepared: " + err.Error()
		return false
	}
	s.stream.Store(stream)
	return true
}

// operate makes one operation and counts what its caller is told.
func (s *Service) operate(ctx context.Context, n int) {
	start := time.Now()
	s.begun.Add(1)
	err := s.stream.Load().Operate(context.WithoutCancel(ctx), n)
	outcome, _ := targets.Classify(err)
	switch outcome {
	case targets.OK:
		s.acknowledged.Add(1)
	case targets.Unknown:
		s.unknown.Add(1)
	case targets.NotApplied, targets.Refused:
		s.notApplied.Add(1)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.times.RecordValue(time.Since(start).Microseconds()) // fails for one above slowest
	if outcome == targets.Refused {
		s.fault = "An operation was refused: " + err.Error()
	}
}

// lock locks a row that the load changes: see fault.Target.
func (s *Service) lock(ctx context.Context, tx *sqlx.Tx, hold fault.Hold) error {
	stream := s.stream.Load()
	if stream == nil {
		return hold(noRow{}, nil)
	}
	rows := stream.Rows()
	return hold(tx.ExecContext(ctx, rows.Lock, rows.Args...))
}

// noRow is the result of a lock that found nothing.
type noRow struct{ sql.Result }

// RowsAffected implements sql.Result.
func (noRow) RowsAffected() (int64, error) { return 0, nil }

// mark notes a fault for the next look.
func (s *Service) mark(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.marks = append(s.marks, what)
}

// faults are what the page's buttons do to a service, or to its n-th replica.
var faults = map[string]func(ctx context.Context, in *fault.Injector, s *Service, n int){
	"kill":   func(ctx context.Context, in *fault.Injector, s *Service, n int) { s.inject(ctx, in, fault.Kill, n) },
	"freeze": freeze,
	"roll":   roll,
	"cut": func(ctx context.Context, _ *fault.Injector, s *Service, _ int) {
		s.Proxy.CutEvery(cutEvery, faultproxy.AfterStatement, faultproxy.RST)
		fault.Wait(ctx, faultTime)
		s.Proxy.StopCutting()
	},
	"hold": func(ctx context.Context, in *fault.Injector, s *Service, n int) { s.inject(ctx, in, fault.LockRow, n) },
}

// cutEvery is the number of statements of which one loses its reply.
const cutEvery = 50

func (s *Service) inject(ctx context.Context, in *fault.Injector, what fault.Action, n int) {
	event := fault.Event{Action: what, For: faultTime, Pick: n}
	if err := in.Inject(ctx, event, []*fault.Target{&s.Target}); err != nil {
		s.mark("failed: " + err.Error())
	}
}

// restartTime bounds the wait for a replica that was told to end.
const restartTime = time.Minute

func freeze(ctx context.Context, in *fault.Injector, s *Service, n int) {
	name := s.Replicas.Replicas()[n].Name()
	set := func(frozen bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.frozen[name] = frozen
	}
	set(true)
	defer set(false)
	s.inject(ctx, in, fault.Stop, n)
}

// roll ends one replica after the other by SIGTERM, each when the one before takes requests again, as a Deployment's
// rollout does.
func roll(ctx context.Context, in *fault.Injector, s *Service, _ int) {
	for n, one := range s.Replicas.Replicas() {
		starts := one.Status().Starts
		s.inject(ctx, in, fault.Terminate, n)
		if !restarted(ctx, one, starts) {
			return
		}
	}
}

// restarted waits until a replica takes requests again. It reports false if ctx or restartTime ends first.
func restarted(ctx context.Context, one *local.Replica, starts int) bool {
	ctx, cancel := context.WithTimeout(ctx, restartTime)
	defer cancel()
	for status := one.Status(); status.Starts == starts || !status.Ready; status = one.Status() {
		if !fault.Wait(ctx, interval/5) {
			return false
		}
	}
	return true
}
