package bench

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rowlock/rowlock/lab/internal/pgbench"
	"github.com/rowlock/rowlock/lab/internal/services"
)

// Options say what to measure and how much. The zero value of a field is not replaced; start from [Defaults].
type Options struct {
	// Service names the service to measure.
	Service string `json:"service"`
	// Runs is how often each scenario runs; the report gives medians.
	Runs int `json:"runs"`
	// Warmup precedes each run of the service and is not measured.
	Warmup time.Duration `json:"warmup_ns"`
	// Duration is the measured part of a closed-loop run, and of one of pgbench (there in whole seconds).
	Duration time.Duration `json:"duration_ns"`
	// OpenDuration is the measured part of an open-loop run.
	OpenDuration time.Duration `json:"open_duration_ns"`
	// Rate is the number of requests per second of the open loop.
	Rate float64 `json:"rate"`
	// Connections is how many keep-alive connections the generator holds, over all replicas driven.
	Connections int `json:"connections"`
	// Replicas is how many replicas share the load, but for the scenarios that compare 1, 2 and 3.
	Replicas int `json:"replicas"`
	// Items is how many counters, pots or items the scenarios work on, and how many rows the table of pgbench has.
	Items int `json:"items"`
	// Only names the scenarios to run; empty means all.
	Only []string `json:"only,omitempty"`
	// Trace measures what tracing costs instead: the uniform load with tracing off, at 1 % and at 100 %.
	Trace bool `json:"trace,omitempty"`
	// Judge says whether the bars are judged. A smoke test prints its figures and judges nothing.
	Judge bool `json:"judge"`
}

// maxItems bounds the requests that are made beforehand.
const maxItems = 100_000

// suites returns the benches by service.
func suites() map[string]func(o Options) suite {
	return map[string]func(o Options) suite{
		services.Counts: newCounts, services.Payments: newPayments, services.Events: newEvents, services.Iidy: newIidy,
		services.Pyggpot: newPyggpot,
	}
}

// Defaults returns the options that the published figures of a service are measured with.
func Defaults(service string) Options {
	o := Options{
		Service: service, Runs: 3, Warmup: 2 * time.Second, Duration: 10 * time.Second, OpenDuration: 30 * time.Second,
		Rate: 10_000, Connections: 256, Replicas: 2, Items: 10_000, Judge: true,
	}
	switch service {
	case services.Payments:
		o.Connections = pgbench.Clients
	case services.Pyggpot:
		o.Connections, o.Items = pgbench.Clients, 1000
	case services.Events: // its scenarios are many and short
		o.Duration, o.Warmup = 6*time.Second, time.Second
	case services.Iidy:
		o.Connections, o.Replicas = 8, 1
	}
	return o
}

// Quick makes a smoke test of the options: every scenario once, for a second or so, at a tenth of the rate, without a
// judgement.
func (o Options) Quick() Options {
	o.Runs, o.Warmup, o.Duration, o.OpenDuration = 1, 200*time.Millisecond, time.Second, 2*time.Second
	o.Rate /= 10
	o.Connections, o.Items, o.Judge = min(o.Connections, 32), min(o.Items, 1000), false
	return o
}

// Validate returns one error that names every option out of bounds.
func (o Options) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(o.Runs >= 1, "runs must be at least 1, not %d", o.Runs)
	check(o.Warmup >= 0, "warmup must not be negative, it is %v", o.Warmup)
	check(o.Duration >= time.Second, "duration must be at least 1s, not %v", o.Duration)
	check(o.OpenDuration >= time.Second, "open-duration must be at least 1s, not %v", o.OpenDuration)
	check(o.Rate > 0, "rate must be positive, not %g", o.Rate)
	check(o.Replicas >= 1, "replicas must be at least 1, not %d", o.Replicas)
	check(o.Connections >= max(maxHotReplicas, o.Replicas),
		"connections must reach every replica, %d do not", o.Connections)
	check(o.Items >= 1 && o.Items <= maxItems, "items must be 1 to %d, not %d", maxItems, o.Items)
	check(!o.Trace || o.Service == services.Counts, "trace is measured with counts alone")
	newSuite := suites()[o.Service]
	if newSuite == nil {
		return errors.Join(append(errs, fmt.Errorf("there is no bench of %q", o.Service))...)
	}
	var known []string
	for _, s := range newSuite(o).scenarios {
		known = append(known, s.name)
	}
	for _, name := range o.Only {
		check(slices.Contains(known, name), "there is no scenario %q; there are %s", name, strings.Join(known, ", "))
	}
	return errors.Join(errs...)
}
