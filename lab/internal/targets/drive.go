package targets

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	rowlock "github.com/rowlock/rowlock/client"
)

// Load describes how a target is driven.
type Load struct {
	Target

	// Rate is how many operations begin in a second.
	Rate int
	// Clients is how many operations are in flight at most.
	Clients int
	// Begun is called, if it is not nil, when all is prepared and the first operation is about to begin.
	Begun func()
}

// Validate returns an error that names what is out of bounds.
func (l Load) Validate() error {
	if l.Rate < 1 || l.Clients < 1 {
		return errors.New("rate and clients must be at least 1")
	}
	_, err := Named(l.Service)
	return err
}

// Report says what a load met.
type Report struct {
	Service string `json:"service"`
	// Acknowledged counts the operations that succeeded.
	Acknowledged int `json:"acknowledged"`
	// NotApplied and Unknown count operations by reason. Wrong counts those with an answer that has no cause.
	NotApplied map[string]int `json:"not_applied"`
	Unknown    map[string]int `json:"unknown"`
	Wrong      map[string]int `json:"wrong"`
	// Stored is how many operations the service holds at the end.
	Stored int `json:"stored"`
	// Fault is empty when the sums are right and nothing was wrong; otherwise it says what is wrong.
	Fault string `json:"fault"`
	// Seconds is the length of the load.
	Seconds float64 `json:"seconds"`
}

// Failed returns the number of operations that were not acknowledged.
func (r *Report) Failed() int { return total(r.NotApplied) + total(r.Unknown) + total(r.Wrong) }

func total(counts map[string]int) (sum int) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

const (
	// loadRedials is the time for which a load tries a refused connection again.
	loadRedials = 10 * time.Second
	// loadPerConnection is after how many operations a load closes a connection.
	loadPerConnection = 25
	// sumTimeout bounds the comparison after the load.
	sumTimeout = time.Minute
)

// Drive sends the load until stop is closed or ctx ends, compares the sums, and
// reports. Its error says that there was no load at all.
func Drive(ctx context.Context, l Load, stop <-chan struct{}) (*Report, error) {
	t := newTransport()
	t.redialFor, t.perConnection = loadRedials, loadPerConnection
	w, err := open(l.Target, Once(&http.Client{Transport: t, Timeout: answerTimeout + loadRedials}))
	if err != nil {
		return nil, err
	}

	if err := w.prepare(ctx); err != nil {
		return nil, fmt.Errorf("prepare: %w", err)
	}
	r := &Report{Service: l.Service, NotApplied: map[string]int{}, Unknown: map[string]int{}, Wrong: map[string]int{}}
	if l.Begun != nil {
		l.Begun()
	}
	began := time.Now()
	r.load(ctx, l, w, stop)
	r.Seconds = time.Since(began).Seconds()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sumTimeout)
	defer cancel()
	r.compare(ctx, w)
	return r, nil
}

// load begins operations at the rate, each as soon as a client is free, and waits for all of them.
func (r *Report) load(ctx context.Context, l Load, w workload, stop <-chan struct{}) {
	var mu sync.Mutex
	var clients errgroup.Group
	clients.SetLimit(l.Clients)
	defer func() { _ = clients.Wait() }() // none returns an error
	ticker := time.NewTicker(time.Second / time.Duration(l.Rate))
	defer ticker.Stop()

	for n := 0; ; n++ {
		select {
		case <-ticker.C:
			clients.Go(func() error {
				err := w.operate(context.WithoutCancel(ctx), n)
				mu.Lock()
				defer mu.Unlock()
				r.record(err)
				return nil
			})
		case <-stop:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (r *Report) record(err error) {
	outcome, code := Classify(err)
	switch {
	case outcome == OK:
		r.Acknowledged++
	case outcome == Refused, code == string(rowlock.ErrInternal), code == string(rowlock.ErrBadAnswer):
		r.Wrong[reason(err)]++
	case outcome == NotApplied:
		r.NotApplied[reason(err)]++
	case outcome == Unknown:
		r.Unknown[reason(err)]++
	}
}

func (r *Report) compare(ctx context.Context, w workload) {
	stored, err := w.stored(ctx)
	r.Stored = stored
	unknown := total(r.Unknown)
	switch {
	case err != nil:
		r.Fault = err.Error()
	case r.Acknowledged == 0:
		r.Fault = "nothing was acknowledged"
	case len(r.Wrong) > 0:
		r.Fault = fmt.Sprintf("%d answers were wrong", total(r.Wrong))
	case stored < r.Acknowledged || stored > r.Acknowledged+unknown:
		r.Fault = fmt.Sprintf("%d are stored, %d were acknowledged and %d are unknown", stored, r.Acknowledged, unknown)
	}
}
