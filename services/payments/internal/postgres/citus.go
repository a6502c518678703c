package postgres

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/contention"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

// keysKnown bounds the keys whose shard is remembered, for the cleaner.
const keysKnown = 10_000

// onCitus reports whether the payments are distributed over a Citus cluster.
func (s *Store) onCitus() bool { return s.shards != nil }

// On Citus looks, claims and settlements share the pool, but for some connections for changes, pages and probes.
const (
	sharers         = 3
	changesAtOnce   = 3 // two for one worker, of which one may wait for a locked row
	reservedConns   = changesAtOnce + 1
	statementsOfOne = 2 // of a transaction that may wait
)

// distribute sets what runs the requests on a Citus cluster: a transaction for each, on the worker that has its key.
func (s *Store) distribute(
	looks coalesce.Config[payment.Key, payment.Key, state], claims coalesce.Config[payment.Key, bid, state],
	changes coalesce.Config[string, change, state], settles coalesce.Config[string, settlement, settled],
) error {
	s.shards = sqldb.NewShards(s.db, "payments.idempotency_records", keysKnown)
	s.charges = sqldb.NewShards(s.db, "payments.processor_charges", keysKnown)
	atOnce := max((s.options.MaxOpenConns-reservedConns)/sharers, 1)
	var looksErr, claimsErr, changesErr, settlesErr error
	s.looks, looksErr = distributed(s, looks, atOnce, func(k payment.Key) string { return k.Value }, s.lookOne)
	s.claims, claimsErr = distributed(s, claims, atOnce, func(c bid) string { return c.Key.Value }, s.claimOne)
	s.changes, changesErr = distributed(s, changes, changesAtOnce,
		func(c change) string { return bareKey(c.held.Record) }, s.changeOne)
	s.settles, settlesErr = distributed(s, settles, atOnce,
		func(c settlement) string { return bareKey(c.held.Record) }, s.settleOne)
	return errors.Join(looksErr, claimsErr, changesErr, settlesErr)
}

// distributed returns what runs the requests of one kind by run, so many at once. of returns a request's key.
func distributed[K comparable, Q, R any](
	s *Store, cfg coalesce.Config[K, Q, R], atOnce int, of func(Q) string,
	run func(ctx context.Context, wait time.Duration, q Q) (R, error),
) (grouped[Q, R], error) {
	cfg.Gate, cfg.Statements = nil, 2*statementsOfOne
	cfg.Run = func(ctx context.Context, p coalesce.Pass, group []Q) ([]coalesce.Answer[R], error) {
		if p.SkipLocked {
			return coalesce.Halve(group, func(wait time.Duration, part []Q) ([]coalesce.Answer[R], error) {
				return runOne(ctx, wait, part[0], run)
			}), nil
		}
		return runOne(ctx, p.Wait, group[0], run)
	}
	return coalesce.NewOnServers(cfg, atOnce, s.shards, of)
}

// runOne runs a request's transaction, and once more when its outcome is unknown: each recognises that it was applied.
func runOne[Q, R any](
	ctx context.Context, wait time.Duration, q Q, run func(ctx context.Context, wait time.Duration, q Q) (R, error),
) ([]coalesce.Answer[R], error) {
	r, err := run(ctx, wait, q)
	if outcome, ours := sqldb.OutcomeOf(err); ours && outcome == sqldb.Unknown {
		r, err = run(ctx, wait, q)
	}
	if err != nil {
		return nil, coalesce.Classify(err)
	}
	return []coalesce.Answer[R]{{Value: r}}, nil
}

// bareKey returns the key of a record, by which it is distributed.
func bareKey(record string) string {
	if _, key, ofCaller := strings.Cut(record, "\n"); ofCaller {
		return key
	}
	return record
}

// lookOne is runLooks for one key.
func (s *Store) lookOne(ctx context.Context, _ time.Duration, key payment.Key) (state, error) {
	var rows []record
	names := []string{key.Value, ownRecord(key)}
	if err := s.db.SelectUnqueued(ctx, &rows, lookOneSQL, textArray(names), key.Value); err != nil {
		return state{}, err
	}
	row, found := find(index(rows), rows, key)
	return state{row: row, found: found}, nil
}

// errEarlier rolls a claim back whose key has another number of earlier payments than its processor's key says.
var errEarlier = errors.New("payments: the key has other earlier payments")

// claimOne is claimAll for one key. It claims the place that the key's records leave to it, and reads the number of
// earlier payments behind that: no other request settles one while the claim's row is locked.
func (s *Store) claimOne(ctx context.Context, wait time.Duration, c bid) (now state, err error) {
	begin := time.Now()
	err = s.inTx(ctx, wait, func(ctx context.Context, tx *sqlx.Tx) error {
		now = state{earlier: c.earlier}
		place, found, err := placeOf(ctx, tx, c)
		if err != nil || found != nil {
			if found != nil {
				now = *found
			}
			return err
		}
		t := c.Terms
		processorKey := payment.ProcessorKey(c.Key, c.earlier)
		var at time.Time
		err = tx.GetContext(ctx, &at, claimOneSQL, c.Key.Value, place, c.Key.Caller, c.Fingerprint.Sum,
			c.Fingerprint.Version, string(c.ID), c.Lease.Microseconds(), processorKey, string(t.RideID), t.RiderID, t.Amount,
			string(t.Currency), t.Card.Brand, t.Card.Last4, t.Card.ExpMonth, t.Card.ExpYear, c.TTL.Microseconds())
		if errors.Is(err, sql.ErrNoRows) {
			return nil // another transaction's since then: the next one sees it
		}
		if err != nil {
			return err
		}
		var earlier int
		if err := tx.GetContext(ctx, &earlier, earlierOneSQL, c.Key.Value, ownRecord(c.Key)); err != nil {
			return err
		}
		if now.earlier = earlier; earlier != c.earlier {
			return errEarlier
		}
		now.held = &payment.Held{
			Record: place, ClaimID: c.ID, ProcessorKey: processorKey, Terms: c.Terms, Now: at.UTC(),
		}
		return nil
	})
	s.options.Contention.Waited(contention.InDatabase, min(time.Since(begin), wait))
	switch {
	case errors.Is(err, errEarlier):
		return now, nil
	case sqldb.IsUniqueViolation(err): // as inOtherPlace: Citus does not pass on which index it is, and there is one
		return state{}, coalesce.ErrLockWait // the next one finds it
	}
	return now, err
}

// placeOf returns the name of the record that a claim of the key takes, or the live record that stands there. It does
// as joinPlace.
func placeOf(ctx context.Context, tx *sqlx.Tx, c bid) (place string, found *state, err error) {
	type row struct {
		record

		Expired bool `db:"expired"`
	}
	var rows []row
	own := ownRecord(c.Key)
	if err := tx.SelectContext(ctx, &rows, placesOneSQL, c.Key.Value, own); err != nil {
		return "", nil, err
	}
	byName := make(map[string]row, len(rows))
	for _, r := range rows {
		byName[r.Name] = r
	}
	mine, hasOwn := byName[own]
	bare, hasBare := byName[c.Key.Value]
	switch {
	case hasOwn && !mine.Expired:
		place = own
	case hasBare && !bare.Expired && bare.Caller != "" && bare.Caller != c.Key.Caller:
		place = own
	case hasBare && !bare.Expired:
		place = c.Key.Value
	case hasOwn:
		place = own
	default:
		place = c.Key.Value
	}
	r, there := byName[place]
	live := there && !r.Expired && (r.Status == statusCompleted || r.ClaimID.String != string(c.ID))
	if !live {
		return place, nil, nil
	}
	r.Unconfirmed = r.Status == statusCompleted // the look that follows waits for the worker's standbys
	return place, &state{row: r.record, found: true}, nil
}

// changeOne is runChanges for one claim.
func (s *Store) changeOne(ctx context.Context, wait time.Duration, c change) (now state, err error) {
	key := bareKey(c.held.Record)
	err = s.inTx(ctx, wait, func(ctx context.Context, tx *sqlx.Tx) (err error) {
		now = state{}
		switch c.kind {
		case giveBack:
			_, err = tx.ExecContext(ctx, giveBackOneSQL, key, c.held.Record, c.fence)
		case drop:
			_, err = tx.ExecContext(ctx, dropOneSQL, key, c.held.Record, c.fence)
		case takeOver:
			h := c.held
			err = tx.QueryRowContext(ctx, takeOverOneSQL, key, h.Record, c.fence, string(h.ClaimID),
				c.lease.Microseconds(), c.ttl.Microseconds()).Scan(&h.ProcessorKey, &h.Now)
			if errors.Is(err, sql.ErrNoRows) {
				return nil
			}
			h.Now, h.TakenOver = h.Now.UTC(), true
			now.held = &h
		}
		return err
	})
	return now, err
}

// settleOne is runSettles for one payment.
func (s *Store) settleOne(ctx context.Context, wait time.Duration, c settlement) (done settled, err error) {
	key, name := bareKey(c.held.Record), c.held.Record
	err = s.inTx(ctx, wait, func(ctx context.Context, tx *sqlx.Tx) error {
		done = settled{}
		var of struct {
			row

			ProcessorKey string `db:"processor_key"`
		}
		err := tx.GetContext(ctx, &of, completeOneSQL, key, name, string(c.held.ClaimID), string(c.payment.ID),
			c.receipt.Code, string(c.receipt.Data))
		if errors.Is(err, sql.ErrNoRows) {
			err = tx.GetContext(ctx, &done.row, storedOneSQL, key, name)
			if errors.Is(err, sql.ErrNoRows) {
				return nil // gone
			}
			return err
		}
		if err != nil {
			return err
		}
		done.stored = true
		_, err = tx.ExecContext(ctx, payOneSQL, key, name, string(c.payment.ID), c.payment.DeclineCode,
			c.payment.CreatedAt.UnixMicro(), of.ProcessorKey, of.RideID, of.RiderID, of.Amount, of.Currency, of.CardBrand,
			of.CardLast4, of.CardExpMonth, of.CardExpYear)
		return err
	})
	return done, err
}

// inTx runs a transaction whose statements wait for locks for so long on the workers.
func (s *Store) inTx(ctx context.Context, wait time.Duration, fn func(context.Context, *sqlx.Tx) error) error {
	return s.db.InTx(ctx, fn, sqldb.WithLockTimeout(wait))
}
