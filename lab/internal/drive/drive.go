package drive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Options say how much load there is.
type Options struct {
	// Service is a name out of [Services].
	Service string
	// URL is the address of its API; Internal that of its internal API, URL when empty.
	URL, Internal string
	// Rate is how many operations are begun a second.
	Rate int
	// Clients is how many may be under way at once.
	Clients int
}

// Report is what came of it.
type Report struct {
	Service string `json:"service"`
	// Acknowledged, NotApplied, Unknown and Wrong count operations; the last three by what was said.
	Acknowledged int            `json:"acknowledged"`
	NotApplied   map[string]int `json:"not_applied"`
	Unknown      map[string]int `json:"unknown"`
	Wrong        map[string]int `json:"wrong"`
	// Redials counts refused connections.
	Redials int `json:"redials"`
	// Stored is what the service holds at the end, a number that lies between Acknowledged and that plus what is unknown.
	Stored int `json:"stored"`
	// Verdict is "ok", or what is wrong.
	Verdict string `json:"verdict"`
	// Seconds is how long the load lasted.
	Seconds float64 `json:"seconds"`
}

// Failed counts the operations that were not acknowledged.
func (r *Report) Failed() int { return total(r.NotApplied) + total(r.Unknown) + total(r.Wrong) }

func total(counts map[string]int) (sum int) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

// work is the load on a service.
type work interface {
	// prepare makes what the operations need.
	prepare(ctx context.Context, c *client) error
	// operate makes the n-th operation.
	operate(ctx context.Context, c *client, n int) outcome
	// stored reads what the service holds of it. unknown is how many operations may or may not be in it.
	stored(ctx context.Context, c *client, unknown int) (int, error)
}

func works() map[string]func() work {
	return map[string]func() work{
		"counts":   func() work { return &counting{} },
		"events":   func() work { return &events{} },
		"iidy":     func() work { return &iidy{} },
		"payments": func() work { return &payments{} },
		"pyggpot":  func() work { return &pyggpot{} },
	}
}

// Services are the names of the services that can be driven.
func Services() []string {
	names := make([]string, 0, len(works()))
	for name := range works() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// settleTime is how long it may take to compare what is stored, when the load is over.
const settleTime = time.Minute

// Run drives the service until stop is closed or ctx ends, and reports. Its
// error says that there was no load at all; what the load met is in the report.
func Run(ctx context.Context, o Options, stop <-chan struct{}) (*Report, error) {
	make1, known := works()[o.Service]
	if !known {
		return nil, fmt.Errorf("there is no load for %q", o.Service)
	}
	if o.Rate < 1 || o.Clients < 1 {
		return nil, errors.New("rate and clients are at least 1")
	}
	w, d := make1(), &driver{options: o, report: &Report{
		Service: o.Service, NotApplied: map[string]int{}, Unknown: map[string]int{}, Wrong: map[string]int{},
	}}
	if err := w.prepare(ctx, newClient(o, d.redialled)); err != nil {
		return nil, fmt.Errorf("prepare: %w", err)
	}
	began := time.Now()
	d.load(ctx, w, stop)
	d.report.Seconds = time.Since(began).Seconds()
	settle, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	d.judge(settle, w)
	return d.report, nil
}

type driver struct {
	options Options
	mu      sync.Mutex
	report  *Report
}

func (d *driver) redialled() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.report.Redials++
}

// load begins operations at the rate, each by the next free client. Nothing that was begun is given up.
func (d *driver) load(ctx context.Context, w work, stop <-chan struct{}) {
	next := make(chan int)
	var clients sync.WaitGroup
	for range d.options.Clients {
		clients.Go(func() {
			c := newClient(d.options, d.redialled)
			for n := range next {
				d.note(w.operate(context.WithoutCancel(ctx), c, n))
				c.used()
			}
		})
	}
	ticker := time.NewTicker(time.Second / time.Duration(d.options.Rate))
	defer ticker.Stop()
	for n := 0; ; n++ {
		select {
		case <-ticker.C:
		case <-stop:
			close(next)
			clients.Wait()
			return
		case <-ctx.Done():
			close(next)
			clients.Wait()
			return
		}
		next <- n
	}
}

func (d *driver) note(o outcome) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch o.class {
	case acknowledged:
		d.report.Acknowledged++
	case notApplied:
		d.report.NotApplied[o.said]++
	case unknown:
		d.report.Unknown[o.said]++
	case wrong:
		d.report.Wrong[o.said]++
	}
}

func (d *driver) judge(ctx context.Context, w work) {
	r := d.report
	doubt := total(r.Unknown)
	stored, err := w.stored(ctx, newClient(d.options, d.redialled), doubt)
	r.Stored = stored
	switch {
	case err != nil:
		r.Verdict = err.Error()
	case r.Acknowledged == 0:
		r.Verdict = "nothing was acknowledged"
	case len(r.Wrong) > 0:
		r.Verdict = fmt.Sprintf("%d answers were wrong", total(r.Wrong))
	case stored < r.Acknowledged || stored > r.Acknowledged+doubt:
		r.Verdict = fmt.Sprintf("%d are stored, %d were acknowledged and %d are unknown", stored, r.Acknowledged, doubt)
	default:
		r.Verdict = "ok"
	}
}
