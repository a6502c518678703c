package groupcommit

import (
	"cmp"
	"context"
	"errors"
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
	// Size returns a request's share of the 64 KiB that a group may have. Nil counts nothing.
	Size func(Q) int
	// Place returns the value that a request's rows have in the distribution column. Groups are for one shard each, and
	// requests for a place with a locked row share no group with others. Required where the slots are [Beside] a table.
	Place func(Q) string
	// Send sends a group and sets a.Answers. It keeps neither a nor the group.
	Send func(ctx context.Context, s Session, a *Attempt, group []Q) error
	// Repeat sends a group in place of Send, by one statement that may be sent any number of times: it reads, or it
	// recognises its earlier writes in the rows. It needs no slot: after a lost answer it is sent again. It
	// returns an answer for each request, nil where the request's row is locked, and keeps neither a nor the group.
	Repeat func(ctx context.Context, s Session, a *Attempt, group []Q) ([]*R, error)
	// Transaction says that Send needs several statements. They run in a READ COMMITTED transaction, which is committed
	// when Send returns nil. Without it Send sends one statement. Without slots it is required.
	Transaction bool
	// Held says that the key of a lane is held by another request, such as by a claim, and not by a lock: to wait for it
	// counts as a wait for that request.
	Held bool
	// Lease describes the leases that a group takes before it is sent; nil means none.
	Lease *Lease[Q]
	// Patient tries requests again that have left their group. While one of them has met a row that stays locked, groups
	// only glance at locked rows, because nothing else remembers the lock. It may be nil.
	Patient *Patient
	// MaxKeys limits the keys of a group; 0 means no limit.
	MaxKeys int
}

// Limits are shared by the committers of a replica.
type Limits struct {
	// DB is where groups are sent.
	DB *sqldb.DB
	// Slots prove the outcomes of Send. Nil, on MySQL alone: a lost answer is never found again.
	Slots *Slots

	Queue            int           // requests that wait, at most; default 1024
	InFlight         int           // groups under way beside those of locked keys, of each shard; default 1
	Permits          int           // groups under way on each server of a cluster, half as many of locked keys; default 2
	LockTimeout      time.Duration // limits a request's wait for a locked row; required
	StatementTimeout time.Duration // the server's statement_timeout; required
	// Timeout bounds a group: its sendings and the look-ups together. It starts anew for the rows that are free, and for
	// the halves of a group.
	Timeout time.Duration

	// Contention records the waits for locked rows; it may be nil.
	Contention *contention.Metrics
	// Pipeline joins the committers; nil: each sends when it likes. It requires InFlight 1.
	Pipeline *Pipeline
	// Share bounds the requests in lanes and in the lines of a Patient; nil bounds nothing.
	Share *contention.Share
	// Registry registers the metrics; it may be nil.
	Registry prometheus.Registerer
	// TracerProvider makes a span of each sending; nil makes none, and costs nothing.
	TracerProvider trace.TracerProvider
}

const (
	// maxItems and maxBytes limit a group: its requests, and the sum of their Config.Size.
	maxItems = 500
	maxBytes = 64 << 10

	defaultQueue = 1024
	// defaultPermits lets one shard of a server wait for a row while another is busy.
	defaultPermits = 2

	// briefWait is a group's first wait for locked rows: docs/architecture.md, "The way of a change", has the figures.
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

// The errors of Do, beside those of the database. All but ErrUnknown mean that the request was surely not applied.
var (
	// ErrQueueFull means that [Limits.Queue] requests were waiting already.
	ErrQueueFull = errors.New("groupcommit: the queue is full")
	// ErrClosed means that Close was called before the request came.
	ErrClosed = errors.New("groupcommit: closed")
	// ErrLocked means that another session held the row for [Limits.LockTimeout].
	ErrLocked = errors.New("groupcommit: the row stayed locked by another transaction")
	// ErrLeft means that the caller's context ended before its request was sent. It is joined with the context's error.
	ErrLeft = errors.New("groupcommit: the caller's context ended before its request was sent")
	// ErrUnknown means that the caller's context ended after its request had been sent, or that Send panicked or broke its
	// contract: the request may have been applied.
	ErrUnknown = errors.New("groupcommit: the outcome is unknown")
)

// ErrNoSlot is returned by Send when the slot did not hold the attempt before this one: nothing was changed.
var ErrNoSlot = errors.New("groupcommit: the slot is not at the attempt before this one")

// ErrSplit is returned by Send when one request keeps the group from being sent, and it is not known which: nothing was
// changed. The two halves are then sent separately, and a request that is alone gets the error.
var ErrSplit = errors.New("groupcommit: one request keeps its group from being sent")

// check panics if a configuration cannot work.
func (c Config[K, Q, R]) check() {
	switch {
	case c.Name == "" || c.DB == nil || c.Key == nil || (c.Send == nil) == (c.Repeat == nil):
		panic("groupcommit: Name, DB, Key and one of Send and Repeat are required")
	case c.Slots == nil && !c.Transaction && c.Repeat == nil:
		panic("groupcommit: a single statement needs Slots")
	case c.Slots.distributed() && c.Place == nil:
		panic("groupcommit: distributed slots need Place")
	case c.LockTimeout <= 0 || c.StatementTimeout <= 0:
		panic("groupcommit: LockTimeout and StatementTimeout must be positive")
	case c.Lease != nil && c.Lease.RetryWait <= 0:
		panic("groupcommit: a Lease needs RetryWait")
	}
}

// New returns a committer. It panics if cfg cannot work, or if the registry has another committer of its name.
func New[K comparable, Q, R any](cfg Config[K, Q, R]) *Committer[K, Q, R] {
	cfg.check()

	cfg.Queue = cmp.Or(cfg.Queue, defaultQueue)
	cfg.InFlight = max(cfg.InFlight, 1)
	cfg.Permits = cmp.Or(cfg.Permits, defaultPermits)
	cfg.Timeout = max(cfg.Timeout, cfg.StatementTimeout+statementGrace)
	if cfg.Size == nil {
		cfg.Size = func(Q) int { return 0 }
	}
	if cfg.Place == nil {
		cfg.Place = func(Q) string { return "" }
	}

	s := &shared{metrics: newMetrics(cfg.Registry, cfg.Name)}
	if cfg.TracerProvider != nil {
		s.tracer = cfg.TracerProvider.Tracer("github.com/rowlock/rowlock/platform/groupcommit")
	}
	c := start(cfg, s, permits{})
	if cfg.Slots.distributed() {
		c.shards, c.servers = make(map[sqldb.Shard]*Committer[K, Q, R]), make(map[int64]permits)
	}
	return c
}
