package prove

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"

	rowlock "github.com/rowlock/rowlock/client"
	"github.com/rowlock/rowlock/lab/internal/fault"
	"github.com/rowlock/rowlock/lab/internal/history"
	"github.com/rowlock/rowlock/lab/internal/hostile"
	"github.com/rowlock/rowlock/lab/internal/targets"
)

const (
	// isolated names the check of the normal clients' p99, which must be below lockWait: they do not wait for the rows
	// that attackers lock. Its figures are shown, and depend on the machine.
	isolated = "isolated"
	// mostMemory is the resident memory of a replica under attack, in bytes.
	mostMemory = 400 << 20
	// mostIdle is the longest time that a session may be idle in a transaction.
	mostIdle = time.Second
	// keyLocked and keyFree are how long the attacked key is locked, longer than the services wait, and then free.
	keyLocked = lockWait + lockWait/5
	keyFree   = 100 * time.Millisecond
	// pagers read pages.
	pagers  = 12
	uploads = 4

	jsonType = "application/json"
	// hostilePrefix stands before the prefix of the normal clients' names.
	hostilePrefix = "hostile-"
	// missing is how many bytes of a short body are never sent, and longBody of one that is as long as small ones may be.
	missing  = 99
	longBody = 60 << 10
)

// victim is what a service's attackers and their accounts know of it.
type victim struct {
	hostile.Victim

	// lock locks the attacked key in another session, and calls hold. It is nil for a service without such keys.
	lock func(ctx context.Context, tx *sqlx.Tx, hold fault.Hold) error
	// call asks for the attacked key, and returns how much was stored by that.
	call func(ctx context.Context) (stored int64, err error)
	// settle repeats the calls whose answers were lost, as their callers would; nil when no repeat is safe.
	settle func(ctx context.Context) error
	// stored is the query for how much is stored, and crossed for what cross-site requests changed.
	stored, crossed string
	// page reads a page, and upload is a normal client's long request; nil when the service has none.
	page, upload func(ctx context.Context) error

	// Observations of the service under attack.
	memory float64       // of the largest replica, in bytes
	idle   time.Duration // the longest of a session in a transaction

	mu             sync.Mutex
	acked, unknown int64
}

// ask calls for an attacked key and keeps the accounts.
func (v *victim) ask(ctx context.Context, call func(ctx context.Context) (int64, error)) error {
	n, err := call(ctx)
	outcome, code := targets.Classify(err)
	if outcome == targets.Refused || code == string(rowlock.ErrInternal) {
		v.Accuse("a call for the locked key answered " + code)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	switch outcome {
	case targets.OK:
		v.acked += n
	case targets.Unknown:
		v.unknown++
	case targets.Refused, targets.NotApplied:
	}
	return err
}

// adds reports whether the answers explain that so much is stored.
func (v *victim) adds(stored int64) bool { return v.acked <= stored && stored <= v.acked+v.unknown }

// attack prepares the attacks of the window on a service.
func (p *prover) attack(ctx context.Context, s *subject, normal site) error {
	v := &victim{}
	v.Crowd = s.kind.slots() * p.Replicas * 5 / 4
	v.Addrs = func() (addrs []string) {
		for _, one := range s.Replicas.Ready() {
			addrs = append(addrs, one.API)
		}
		return addrs
	}

	normal.client, normal.prefix = targets.HTTPClient(), hostilePrefix+normal.prefix
	if err := s.kind.attack(ctx, v, normal); err != nil {
		return fmt.Errorf("prepare the attacks on %s: %w", s.Name, err)
	}
	s.attacked, s.Attacks = v, v.Attacks()
	if v.lock != nil {
		s.Lock, s.Attacks[fault.LockedKey] = v.lock, func(ctx context.Context) int { return p.lockedKey(ctx, s) }
	}

	if v.page != nil {
		s.Attacks[fault.Pages] = func(ctx context.Context) int { return hostile.Callers(ctx, pagers, v.page) }
	}
	if v.upload != nil {
		s.Attacks[fault.Upload] = func(ctx context.Context) int {
			return hostile.Callers(ctx, uploads, func(ctx context.Context) error {
				err := v.upload(ctx)
				if err != nil {
					v.Accuse("a normal upload: " + err.Error())
				}
				return err
			})
		}
	}
	return nil
}

// lockedKey locks the attacked key again and again, while the callers come for it.
func (p *prover) lockedKey(ctx context.Context, s *subject) (calls int) {
	var all sync.WaitGroup
	all.Go(func() {
		calls = hostile.Callers(ctx, s.attacked.Crowd, func(ctx context.Context) error {
			return s.attacked.ask(ctx, s.attacked.call)
		})
	})
	for again := true; again; again = fault.Wait(ctx, keyFree+rand.N(4*keyFree)) {
		event := fault.Event{Action: fault.LockRow, For: keyLocked}
		if err := p.injector.Inject(ctx, event, []*fault.Target{s.Target}); err != nil && ctx.Err() == nil {
			s.attacked.Accuse("the key cannot be locked: " + err.Error())
		}
	}
	all.Wait()
	return calls
}

// watch looks at the attacked services until the function that it returns is called.
func (p *prover) watch(ctx context.Context, parts []*subject) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	for _, s := range parts {
		if s.attacked != nil {
			all.Go(func() {
				for fault.Wait(ctx, time.Second) {
					s.look(context.WithoutCancel(ctx))
				}
			})
		}
	}
	return func() {
		cancel()
		all.Wait()
	}
}

// look reads the memory of the replicas and the age of idle transactions.
func (s *subject) look(ctx context.Context) {
	_, memory := s.metric(ctx, residentMemory)
	s.attacked.memory = max(s.attacked.memory, memory)
	var seconds float64
	// An error is one of the database, which the normal clients meet as well.
	_ = s.db.GetContext(ctx, &seconds, `SELECT coalesce(max(extract(epoch FROM clock_timestamp() - state_change)), 0)
		FROM pg_stat_activity WHERE usename = $1 AND state LIKE 'idle in transaction%'`, s.Role)
	s.attacked.idle = max(s.attacked.idle, time.Duration(seconds*float64(time.Second)))
}

// account checks the outcome of the attacks on the service, and that they did not slow the normal clients down.
func (v *victim) account(ctx context.Context, w Window, f *findings) {
	attacks := f.began + w.Events[0].At
	_, calm, _ := times(between(f.ops, f.began+quiet, attacks))
	_, attacked, _ := times(between(f.ops, attacks, attacks+w.Events[0].For))
	f.addf(isolated, attacked < lockWait, "p99 %s, before the attacks %s; below %s",
		round(attacked), round(calm), lockWait)
	f.addf("memory", v.memory <= mostMemory, "%.0f MiB in the largest replica, at most %d",
		v.memory/(1<<20), mostMemory>>20)
	f.addf("idle in transaction", v.idle <= mostIdle, "%s at most", round(v.idle))
	if v.settle != nil {
		if err := v.settle(ctx); err != nil {
			v.Accuse("a repeat: " + err.Error())
		}
	}

	if v.stored != "" {
		n := int64(f.count(ctx, v.stored))
		f.addf("locked key", v.adds(n), "%d stored, %d acknowledged, %d unknown", n, v.acked, v.unknown)
	}
	if v.crossed != "" {
		n := f.count(ctx, v.crossed)
		f.addf("cross-site", n == 0, "%d changes by pages of other origins", n)
	}
	wrong := v.Wrong()
	f.addf("attackers", len(wrong) == 0, "answers that they should not have got: %s", listed(wrong))
}

// between returns the operations that were called in that time.
func between(ops []history.Op, from, to time.Duration) (some []history.Op) {
	for _, op := range ops {
		if from <= op.Call && op.Call < to {
			some = append(some, op)
		}
	}
	return some
}
