package prove

import (
	"slices"
	"strings"
	"time"

	rowlock "github.com/rowlock/rowlock/client"
	"github.com/rowlock/rowlock/lab/internal/history"
	"github.com/rowlock/rowlock/lab/internal/targets"
)

// without returns, for each outage of the primary, the time from its end to the answer of the first change that was
// sent when it was gone; 0 where no change was answered.
func (p *prover) without(ops []history.Op, changes func(history.Op) bool) (all []time.Duration) {
	for _, outage := range p.outages {
		at, lost := outage.At.Sub(p.begun), outage.Lost.Sub(p.begun)
		first := time.Duration(0)
		for _, op := range ops {
			acknowledged := op.Outcome == targets.OK && changes(op) && op.Call >= lost
			if acknowledged && (first == 0 || op.Return-at < first) {
				first = op.Return - at
			}
		}
		all = append(all, first)
	}
	return all
}

// How long a service may be without a primary: several times what it takes on two busy cores. A manager has to notice
// the loss first.
const (
	longestOutage = 10 * time.Second
	longestNotice = 15 * time.Second
)

// servedAgain demands that changes were acknowledged soon after each failover.
func servedAgain(without []time.Duration, servers Servers) Check {
	limit := longestOutage
	if servers == Managed {
		limit += longestNotice
	}
	ok := !slices.Contains(without, 0) && slices.Max(without) <= limit
	return check("served again", ok, "without service %s", list(without))
}

// lossTellers lists the checks that say what was lost. The others may fail for other reasons.
func lossTellers() []string {
	return []string{linearizable, "sums", sameAnswers, "one charge", "ids", "worked once"}
}

// noticed returns which checks tell of lost changes, and the demands that replace the checks of a service that must
// lose some: that one of them does, and that no answer was INTERNAL.
func noticed(checks []Check, codes map[string]int) (names []string, demands []Check) {
	var found []string
	for _, one := range checks {
		if !one.OK && slices.Contains(lossTellers(), one.Name) {
			names, found = append(names, one.Name), append(found, one.Name+": "+one.Detail)
		}
	}
	internal := codes[string(rowlock.ErrInternal)]
	return names, []Check{
		check("loss noticed", len(names) > 0, "%d checks tell of it: %s", len(names), strings.Join(found, "; ")),
		check("answers", internal == 0, "%d INTERNAL", internal),
	}
}

// list returns durations in a row.
func list(all []time.Duration) string {
	words := make([]string, len(all))
	for i, one := range all {
		words[i] = round(one).String()
	}
	return strings.Join(words, ", ")
}
