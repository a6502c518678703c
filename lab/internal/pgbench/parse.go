package pgbench

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Result is what one run of pgbench reported.
type Result struct {
	// TPS is the number of transactions per second without the time that making the connections took.
	TPS float64 `json:"tps"`
	// Transactions is the number of transactions that were committed.
	Transactions int64 `json:"transactions"`
	// Failed is the number of transactions given up after a serialization failure or deadlock. Before version 15
	// pgbench ends its client on such an error instead, and Failed stays 0.
	Failed int64 `json:"failed"`
	// Latency is the mean, in nanoseconds.
	Latency time.Duration `json:"latency_ns"`
}

// errNoTransactions is a run that was over before its first transaction: the time that making the connections takes
// counts.
var errNoTransactions = errors.New("pgbench: no transaction ended in the time it had")

// Until version 13 pgbench printed two rates, with and without the connections; since 14 it prints the one without.
var tpsLine = regexp.MustCompile(`^tps = ([0-9.]+) ` +
	`\((?:without initial connection time|excluding connections establishing)\)`)

// parse reads the summary that pgbench 10 to 18 prints to standard output.
func parse(output string) (Result, error) {
	var (
		result             Result
		hasTPS, hasNumber  bool
		hasLatency, hasAny bool
	)

	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)

		var err error

		if match := tpsLine.FindStringSubmatch(line); match != nil {
			hasTPS = true
			result.TPS, err = strconv.ParseFloat(match[1], 64)
		} else if value, ok := strings.CutPrefix(line, "number of transactions actually processed: "); ok {
			hasNumber = true
			value, _, _ = strings.Cut(value, "/") // a run by number prints "done/asked"
			result.Transactions, err = strconv.ParseInt(value, 10, 64)
		} else if value, ok := strings.CutPrefix(line, "number of failed transactions: "); ok {
			value, _, _ = strings.Cut(value, " ")
			result.Failed, err = strconv.ParseInt(value, 10, 64)
		} else if value, ok := strings.CutPrefix(line, "latency average = "); ok {
			hasLatency = true
			result.Latency, err = time.ParseDuration(strings.ReplaceAll(value, " ", ""))
		} else {
			continue
		}

		hasAny = true

		if err != nil {
			return Result{}, fmt.Errorf("pgbench: read its line %q: %w", line, err)
		}
	}

	switch {
	case hasNumber && result.Transactions == 0: // then the rest of the summary is left out
		return Result{}, errNoTransactions
	case !hasAny:
		return Result{}, errors.New("pgbench: it printed no summary")
	case !hasTPS || !hasNumber || !hasLatency:
		return Result{}, errors.New("pgbench: its summary lacks the rate, the number of transactions, or the latency")
	}

	return result, nil
}
