package payment

import (
	"context"
	"errors"
	"sync"
)

// Reconcile settles up to limit payments whose request was given up: it asks the processor
// for the outcome of their charges, and never charges. It returns the number of claims that
// it has handled, and the errors of the repository. Any number of replicas may call it.
func (s *Service) Reconcile(ctx context.Context, limit int) (int, error) {
	overdue, err := s.Repository.Overdue(ctx, s.ReconcileAfter, s.Lease, limit)
	if err != nil {
		return 0, err
	}

	errs := make([]error, len(overdue))
	var all sync.WaitGroup
	for i, o := range overdue { // all at once, because their leases are running
		all.Go(func() { errs[i] = s.reconcile(ctx, o) })
	}
	all.Wait()
	return len(overdue), errors.Join(errs...)
}

// reconcile settles the charge of one claim. A charge that the processor does not know may
// be on its way, so it is asked for again until the record expires.
func (s *Service) reconcile(ctx context.Context, o Overdue) error {
	result, err := s.Processor.Find(ctx, Charge{Key: o.ProcessorKey, Fare: o.Terms.Fare})

	ctx = context.WithoutCancel(ctx)
	switch {
	case err == nil:
		p := newPayment(o.Held, result)
		_, fresh, err := s.Repository.Settle(ctx, o.Held, p)
		if fresh {
			s.Settled(p.Status)
		}
		return err
	case errors.Is(err, ErrKeyConflict), errors.Is(err, ErrNotCharged) && o.Expired:
		return s.Repository.Drop(ctx, o.Held)
	default:
		return s.Repository.GiveBack(ctx, o.Held)
	}
}
