package groupcommit

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/sqldb"
)

// Config describes how requests Q with keys K are sent, and answered by an R each.
type Config[K comparable, Q, R any] struct {
	Limits

	// Name labels the metrics and names the spans: a constant such as "events_add".
	Name string
	// Key returns the key of the row that a request locks.
	Key func(Q) K
	// Size returns a request's share of MaxBytes, in bytes. Nil counts nothing.
	Size func(Q) int
	// Send sends a group and sets a.Answers. It keeps neither a nor the group.
	Send func(ctx context.Context, s Session, a *Attempt, group []Q) error
	// Transaction says that Send needs several statements. They run in a READ COMMITTED transaction, which is committed
	// when Send returns nil. Without it Send sends one statement. Without slots it is required.
	Transaction bool

	MaxItems int // requests in a group; default 500
	MaxBytes int // sum of Size in a group; default 64 KiB
}

// Limits are what the committers of a replica share.
type Limits struct {
	// DB is where groups are sent.
	DB *sqldb.DB
	// Slots prove outcomes. Nil, on MySQL alone: a lost answer is never found again.
	Slots *Slots

	Queue            int           // requests that wait, at most; default 1024
	InFlight         int           // groups under way beside those of locked keys; default 1
	LockTimeout      time.Duration // how long a request may wait for a locked row; required
	StatementTimeout time.Duration // the server's statement_timeout; required
	// Timeout bounds the time for which a caller waits, and a lost answer is asked for.
	Timeout time.Duration

	// Contention records the waits for locked rows; it may be nil.
	Contention *contention.Metrics
	// Share bounds the requests in lanes; nil bounds nothing.
	Share *contention.Share
	// Registry registers the metrics; it may be nil.
	Registry prometheus.Registerer
	// TracerProvider makes a span of each sending; nil makes none, and costs nothing.
	TracerProvider trace.TracerProvider
}

// Session is what Send sends statements on: a connection, or the transaction on one.
type Session interface {
	// ExecContext sends a statement that returns no rows.
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	// GetContext scans the first row into dest, as sqlx does. No row is sql.ErrNoRows.
	GetContext(ctx context.Context, dest any, query string, args ...any) error
	// SelectContext scans all rows into the slice at dest, as sqlx does.
	SelectContext(ctx context.Context, dest any, query string, args ...any) error
}

// Attempt is one sending of a group.
type Attempt struct {
	// LockWait is the lock_timeout of the statements.
	LockWait time.Duration
	// SkipLocked asks to leave the rows that are locked unchanged, with the answer null to their requests. A locked row
	// must never be mistaken for a missing one. It is set only where a group has several keys, or several lanes wait.
	SkipLocked bool
	// Slot names the slot, and Number the attempt that this sending takes. A transaction calls Store. A single statement
	// locks the slot's row, which must hold Number - 1, before it changes anything, and gives it Number, Answers and the
	// clock's time. Where there is no such row, it changes nothing, and Send returns ErrNoSlot.
	Slot   string
	Number int64

	// Answers is set by Send to what the slot has stored: a JSON array with one element for each request of the group, in
	// the group's order, that an R is decoded from. An element null says that the request's row is locked, or that its key
	// is held in another way, such as by a lease: the request waits in the lane of its key.
	Answers []byte
	// Unchanged is set by Send when the group changed nothing, and the slot was left as it was: nothing is to be proven.
	Unchanged bool
	// Waited is set by Send to the time for which the statements waited for locked rows.
	Waited time.Duration

	storeSQL string
}

const storeSQL = `
UPDATE %s
   SET attempt = $2, answers = $3, used_at = clock_timestamp()
 WHERE id = $1 AND attempt = $2 - 1`

// Store encodes the answers, one for each request, and writes them into the slot, as the last statement of a
// transaction. It returns ErrNoSlot, upon which Send must return it and nothing is committed, when the slot does not
// hold the attempt before.
func (a *Attempt) Store(ctx context.Context, s Session, answers any) error {
	encoded, err := json.Marshal(answers)
	if err != nil {
		return fmt.Errorf("groupcommit: encode the answers: %w", err)
	}
	a.Answers = encoded
	if a.storeSQL == "" { // MySQL
		return nil
	}

	result, err := s.ExecContext(ctx, a.storeSQL, a.Slot, a.Number, encoded)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n != 1 {
		return errors.Join(ErrNoSlot, err)
	}
	return nil
}

// Run sends the statement of a group that is one statement, and sets Answers, Waited and Unchanged. Its first three
// parameters are the slot, the number and lock_timeout, args follow. It returns one row: answers; waited, in seconds;
// and unchanged, where it may leave the slot as it was. Where it returns no row Run returns ErrNoSlot.
func (a *Attempt) Run(ctx context.Context, s Session, statement string, args ...any) error {
	var row struct {
		Answers   []byte  `db:"answers"`
		Waited    float64 `db:"waited"`
		Unchanged bool    `db:"unchanged"`
	}
	args = append([]any{a.Slot, a.Number, sqldb.Milliseconds(a.LockWait)}, args...)
	err := s.GetContext(ctx, &row, statement, args...)
	if errors.Is(err, sql.ErrNoRows) {
		return ErrNoSlot
	}
	if err != nil {
		return err
	}

	a.Answers, a.Unchanged = row.Answers, row.Unchanged
	a.Waited = time.Duration(row.Waited * float64(time.Second))
	return nil
}

const (
	defaultMaxItems = 500
	defaultMaxBytes = 64 << 10
	defaultQueue    = 1024

	// briefWait is a group's first wait for locked rows: docs/architecture.md, "Group commit", has the figures.
	briefWait = 50 * time.Millisecond
	// glance is the wait for rows that cannot be skipped, because another session is inserting them.
	glance = 5 * time.Millisecond
	// maxGlances bounds the waits of this kind for one group.
	maxGlances = 24
	// longestWait bounds the growing waits in lanes, so that a row that has come free is found within this time.
	longestWait = 250 * time.Millisecond
	// maxSends bounds how often a group is sent whose answer gets lost: it may be the group that breaks the server.
	maxSends = 3
	// statementGrace lets the server's statement_timeout end a statement first: its answer is definite.
	statementGrace = 2 * sqldb.Grace
)

// Committer sends groups of requests. New returns one. It runs no goroutine while no request waits.
type Committer[K comparable, Q, R any] struct {
	cfg     Config[K, Q, R]
	metrics *metrics
	tracer  trace.Tracer // nil where tracing is off

	mu         sync.Mutex
	queue      fifo[*call[K, Q, R]] // in order of arrival
	lanes      map[K]*lane[K, Q, R] // of the keys that are known to be locked
	turns      []K                  // the lanes with callers; the first one is waited for next
	waiting    int                  // calls that were not sent, in queue and lanes
	running    int                  // groups of the queue under way
	lanesServe bool                 // a goroutine serves the lanes
	crowd      crowd
	closed     bool
	idle       sync.Cond // signalled when nothing waits and nothing is under way
}

// New checks cfg and returns a committer.
func New[K comparable, Q, R any](cfg Config[K, Q, R]) (*Committer[K, Q, R], error) {
	if cfg.Name == "" || cfg.DB == nil || cfg.Key == nil || cfg.Send == nil {
		return nil, errors.New("groupcommit: Name, DB, Key and Send are required")
	}
	if cfg.Slots == nil && !cfg.Transaction {
		return nil, errors.New("groupcommit: a single statement needs Slots")
	}
	if cfg.LockTimeout <= 0 || cfg.StatementTimeout <= 0 {
		return nil, errors.New("groupcommit: LockTimeout and StatementTimeout must be positive")
	}

	cfg.MaxItems = cmp.Or(max(cfg.MaxItems, 0), defaultMaxItems)
	cfg.MaxBytes = cmp.Or(max(cfg.MaxBytes, 0), defaultMaxBytes)
	cfg.Queue = cmp.Or(max(cfg.Queue, 0), defaultQueue)
	cfg.InFlight = max(cfg.InFlight, 1)
	cfg.Timeout = max(cfg.Timeout, cfg.StatementTimeout+statementGrace)
	if cfg.Size == nil {
		cfg.Size = func(Q) int { return 0 }
	}

	m, err := newMetrics(cfg.Registry, cfg.Name)
	if err != nil {
		return nil, fmt.Errorf("groupcommit: register the metrics of %s: %w", cfg.Name, err)
	}

	c := &Committer[K, Q, R]{cfg: cfg, metrics: m, lanes: make(map[K]*lane[K, Q, R])}
	if cfg.TracerProvider != nil {
		c.tracer = cfg.TracerProvider.Tracer("github.com/rowlock/rowlock/platform/groupcommit")
	}
	c.idle.L = &c.mu
	return c, nil
}

// Do puts a request into the next group and returns its answer once the group has committed. Its errors are the
// database's, the ones of this package, and contention.ErrCrowded.
func (c *Committer[K, Q, R]) Do(ctx context.Context, q Q) (R, error) {
	var none R
	if err := ctx.Err(); err != nil {
		return none, errors.Join(ErrLeft, err)
	}
	w := newCall[K, Q, R](ctx, q, c.cfg.Key(q), c.tracer != nil)

	if err := c.enter(w); err != nil {
		return none, err
	}
	select {
	case a := <-w.done:
		return a.value, a.err
	case <-ctx.Done():
	}

	return c.leave(w, ctx.Err())
}

// enter puts a call into the lane of its key, if there is one, or else into the queue.
func (c *Committer[K, Q, R]) enter(w *call[K, Q, R]) error {
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.closed {
		return ErrClosed
	}
	if c.waiting >= c.cfg.Queue {
		c.metrics.refused.Inc()
		return ErrQueueFull
	}

	c.addWaiting(1)
	if l := c.laneOf(w.key); l != nil {
		c.stand(l, w)
	} else {
		c.push(w)
	}
	return nil
}

// leave ends the wait of a caller whose context has ended, with cause.
func (c *Committer[K, Q, R]) leave(w *call[K, Q, R], cause error) (R, error) {
	c.mu.Lock()
	defer c.mu.Unlock()

	select {
	case a := <-w.done: // answered at the same moment: the result is better than a timeout
		return a.value, a.err
	default:
	}

	var none R
	c.givePlace(w)
	if w.state == sent {
		w.abandoned = true // what was sent stands, but it will not be sent again
		return none, errors.Join(ErrUnknown, cause)
	}
	w.state = finished // the queue and the lanes pass over it
	c.addWaiting(-1)
	return none, errors.Join(ErrLeft, cause)
}

// push appends a call to the queue and makes sure that groups are taken from it. The caller holds c.mu.
func (c *Committer[K, Q, R]) push(w *call[K, Q, R]) {
	c.queue.push(w)
	c.crowd.came(c.queue.len())
	if c.running < c.cfg.InFlight {
		c.running++
		go c.serve()
	}
}

// serve sends groups until the queue is empty.
func (c *Committer[K, Q, R]) serve() {
	for {
		c.gather()

		c.mu.Lock()
		group := c.take()
		if len(group) == 0 {
			c.running--
			c.signalIdle()
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()

		c.commit(group)
	}
}

// take takes the next group from the queue and marks it sent. A call whose key has got a lane since goes there. The
// caller holds c.mu.
func (c *Committer[K, Q, R]) take() []*call[K, Q, R] {
	var group []*call[K, Q, R]
	bytes := 0
	for !c.queue.empty() && len(group) < c.cfg.MaxItems {
		w := c.queue.peek()
		if w.state == finished {
			c.queue.pop()
			continue
		}
		if l := c.laneOf(w.key); l != nil {
			c.queue.pop()
			c.stand(l, w)
			continue
		}

		bytes += c.cfg.Size(w.request)
		if len(group) > 0 && bytes > c.cfg.MaxBytes {
			break
		}
		c.queue.pop()
		group = append(group, w)
	}

	c.markSent(group)
	return group
}

// markSent marks calls sent: their callers can no longer withdraw them. The caller holds c.mu.
func (c *Committer[K, Q, R]) markSent(group []*call[K, Q, R]) {
	for _, w := range group {
		w.state = sent
	}
	c.addWaiting(-len(group))
}

// finish answers a call. The caller holds c.mu.
func (c *Committer[K, Q, R]) finish(w *call[K, Q, R], a answer[R]) {
	c.givePlace(w)
	w.state = finished
	w.done <- a
}

// addWaiting adds to the number of calls that were not sent. The caller holds c.mu.
func (c *Committer[K, Q, R]) addWaiting(n int) {
	c.waiting += n
	c.metrics.queue.Set(float64(c.waiting))
}

// signalIdle wakes Close when nothing is under way. The caller holds c.mu.
func (c *Committer[K, Q, R]) signalIdle() {
	if c.running == 0 && !c.lanesServe {
		c.idle.Broadcast()
	}
}

// Close refuses new requests and waits until all others are answered. It returns ctx's error when ctx ends first; they
// are answered all the same.
func (c *Committer[K, Q, R]) Close(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.idle.Broadcast()
	})
	defer stop()

	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for c.running > 0 || c.lanesServe {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("groupcommit: %d requests were still waiting: %w", c.waiting, err)
		}
		c.idle.Wait()
	}
	return nil
}
