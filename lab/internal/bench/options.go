package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/rowlock/rowlock/lab/internal/pgbench"
)

// Options say how much to measure. The zero value of a field is not replaced; start from [Defaults].
type Options struct {
	// Runs is how often each scenario runs; the report gives medians.
	Runs int `json:"runs"`
	// Warmup precedes each run of the service and is not measured.
	Warmup time.Duration `json:"warmup_ns"`
	// Duration is the measured part of a saturated run, and of one of pgbench (there in whole seconds).
	Duration time.Duration `json:"duration_ns"`
	// OpenDuration is the measured part of an open-loop run.
	OpenDuration time.Duration `json:"open_duration_ns"`
	// Rate is the number of requests per second of the open loop.
	Rate float64 `json:"rate"`
	// Connections is how many keep-alive connections the generator holds, over all replicas driven.
	Connections int `json:"connections"`
	// Replicas is how many replicas share the load, but for the scenarios that compare 1, 2 and 3.
	Replicas int `json:"replicas"`
	// Items is how many counters the uniform scenarios spread over, and how many rows the table of pgbench has.
	Items int `json:"items"`
	// Only names the scenarios to run; empty means all.
	Only []string `json:"only,omitempty"`
	// Trace measures what tracing costs instead: the uniform load with tracing off, at 1 % and at 100 %.
	Trace bool `json:"trace,omitempty"`
	// Judge says whether the bars are judged. A smoke test prints its figures and judges nothing.
	Judge bool `json:"judge"`

	service string // whose scenarios; empty means counts
}

// PaymentsDefaults are those of the bench of payments: a closed loop at as many connections as pgbench has clients.
func PaymentsDefaults() Options {
	o := Defaults()
	o.Connections, o.service = pgbench.Clients, servicePayments

	return o
}

// EventsDefaults are those of the bench of events: its scenarios are many and short.
func EventsDefaults() Options {
	o := Defaults()
	o.Duration, o.Warmup, o.service = 6*time.Second, time.Second, serviceEvents

	return o
}

// IidyDefaults are those of the bench of iidy: 8 connections to one replica, 300,000 items in batches and 30,000 one at a time.
func IidyDefaults() Options {
	o := Defaults()
	o.Connections, o.Replicas, o.service = 8, 1, serviceIidy

	return o
}

// PyggpotDefaults are those of the bench of pyggpot: a closed loop at as many connections as pgbench has clients, over 1,000 pots.
func PyggpotDefaults() Options {
	o := Defaults()
	o.Connections, o.Items, o.service = pgbench.Clients, 1000, servicePyggpot

	return o
}

// Defaults are the options that the performance table of the README is measured with.
func Defaults() Options {
	return Options{
		Runs: 3, Warmup: 2 * time.Second, Duration: 10 * time.Second, OpenDuration: 30 * time.Second, Rate: 10_000,
		Connections: 256, Replicas: 2, Items: 10_000, Judge: true,
	}
}

// Quick makes a smoke test of the options: every scenario once, for a second or so, at a tenth of the rate, without a judgement.
func (o Options) Quick() Options {
	o.Runs, o.Warmup, o.Duration, o.OpenDuration = 1, 200*time.Millisecond, time.Second, 2*time.Second
	o.Rate /= 10
	o.Connections = min(o.Connections, 32)
	o.Items = min(o.Items, 1000)
	o.Judge = false

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

	check(!o.Trace || o.service == "" || o.service == serviceCounts, "trace is measured with counts alone")

	known := names(o)
	for _, name := range o.Only {
		check(slices.Contains(known, name), "there is no scenario %q; there are %s", name, strings.Join(known, ", "))
	}

	return errors.Join(errs...)
}

// System is the running system to measure.
type System struct {
	// Replicas are the API addresses (host:port); as many as [Options.ReplicasNeeded] says.
	Replicas []string
	// PIDs are the processes of the replicas in the same order; empty when they are not on this machine.
	PIDs []int
	// DatabaseURL is where pgbench makes a table of its own and updates it; it should be the server that the replicas use. Empty leaves
	// the baselines out, and the server's settings are not reported.
	DatabaseURL string
	// DatabasePID is the server's main process; 0 when it is not known.
	DatabasePID int
	// PGBench is the program; empty leaves the baselines out.
	PGBench string
	// Events is what the bench of events needs beside; nil for the others.
	Events EventsLab
	// Traced are replicas on the same database that trace, by the scenario that drives them; Spans is how many spans their receiver has got.
	// Both are for [Options.Trace] alone.
	Traced map[string]Fleet
	Spans  func(context.Context) (int64, error)
}

// Fleet is replicas with their processes, as in [System].
type Fleet struct {
	Replicas []string
	PIDs     []int
}

// TraceScenarios are the scenarios of [Options.Trace] that need replicas of their own, with the share of the requests that they trace.
func TraceScenarios() map[string]float64 {
	return map[string]float64{scenarioTraceFew: 0.01, scenarioTraceAll: 1}
}

// ReplicasNeeded is how many replicas must run for all scenarios that the options choose.
func (o Options) ReplicasNeeded() int {
	needed := 1
	for _, s := range o.scenarios() {
		needed = max(needed, s.replicas)
	}

	return needed
}

// progress tells the person who waits what is being measured.
type progress struct{ w io.Writer }

func (p progress) printf(format string, args ...any) {
	// A progress line that cannot be written must not end a measurement of minutes.
	_, _ = fmt.Fprintf(p.w, format, args...)
}
