package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rowlock/rowlock/lab/internal/load"
)

// pgbench measures what PostgreSQL does without any service in front of it: the baseline which the speed of a service
// is held against. Its load is the usual one for a small machine: enough clients to keep group commit inside PostgreSQL
// busy. The sweep has as many clients as the service has callers.
const (
	pgbenchClients = 32
	pgbenchThreads = 2
)

// fillFactor is used for tables that are updated, in percent: the same as counts.count_values has, for the two to be
// comparable. PostgreSQL's default is 100, which leaves no room for a row's new version on its page and so costs the
// index an entry for most updates.
const fillFactor = 50

// findPgbench returns the program: the one beside the server before one on PATH.
func findPgbench(binDir string) (string, error) {
	for _, name := range []string{filepath.Join(binDir, "pgbench"), "pgbench"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("pgbench is not beside the server nor on PATH; " +
		"it comes with PostgreSQL's contrib or client package")
}

// errNoTransactions reports a run that was over before its first transaction, on a machine that is overloaded: the time
// that making the connections takes counts.
var errNoTransactions = fmt.Errorf("%w: no transaction of pgbench ended in the time it had", errLeftOut)

// connecting is the time that pgbench has for each connection on top: it counts as part of the run.
const connecting = 4 * time.Millisecond

// bare returns a run of a transaction, in pgbench's language, by pgbenchClients for the duration.
func (r *runner) bare(transaction string) func(context.Context) (Result, error) {
	return r.timed(transaction, pgbenchClients, r.warmup(), r.Duration)
}

// timed returns a run of a transaction by as many clients as are named. Its figures leave out the warm-up, in which
// each connection plans its statements and fills its caches. They come from pgbench's log of all transactions, whose
// writing takes less than a hundredth of the machine. The URL is in the environment: among the arguments it would show
// the password in the process list.
func (r *runner) timed(
	transaction string, clients int, warmup, duration time.Duration,
) func(context.Context) (Result, error) {
	whole := warmup + duration + time.Duration(clients)*connecting
	return func(ctx context.Context) (run Result, err error) {
		if r.pgbench == "" {
			return Result{}, errLeftOut
		}
		dir, err := os.MkdirTemp("", "rowlock-pgbench-")
		if err != nil {
			return Result{}, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

		_, err = output(ctx, r.pgbench, transaction, []string{"PGDATABASE=" + r.url},
			"--no-vacuum", "--protocol=prepared", "--client="+strconv.Itoa(clients),
			"--jobs="+strconv.Itoa(min(clients, pgbenchThreads)), "--time="+strconv.Itoa(int(math.Ceil(whole.Seconds()))),
			"--file=-", "--log", "--log-prefix="+filepath.Join(dir, "log"))
		if err != nil {
			return Result{}, fmt.Errorf("pgbench: %w", err)
		}
		return readLog(dir, warmup)
	}
}

// readLog returns the figures of the transactions after the warm-up, from the logs of pgbench's threads. A line has the
// client, the transaction's number, its time in microseconds (or that it failed, as after a deadlock), the script, and
// when it ended in seconds and microseconds.
func readLog(dir string, warmup time.Duration) (Result, error) {
	type transaction struct{ ended, took int64 } // microseconds
	const failed = -1
	var all []transaction
	files, err := filepath.Glob(filepath.Join(dir, "log.*"))
	if err != nil {
		return Result{}, err
	}

	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return Result{}, err
		}
		for line := range strings.Lines(string(text)) {
			var client, number, script, seconds, micros int64
			var took string
			if _, err := fmt.Sscan(line, &client, &number, &took, &script, &seconds, &micros); err != nil {
				return Result{}, fmt.Errorf("the log of pgbench has the line %q: %w", line, err)
			}
			one := transaction{ended: 1e6*seconds + micros, took: failed}
			if v, err := strconv.ParseInt(took, 10, 64); err == nil {
				one.took = v
			}
			all = append(all, one)
		}
	}

	slices.SortFunc(all, func(a, b transaction) int { return cmp.Compare(a.ended, b.ended) })
	first := slices.IndexFunc(all, func(t transaction) bool { return t.ended >= all[0].ended+warmup.Microseconds() })
	if first < 0 || first == len(all)-1 {
		return Result{}, errNoTransactions
	}

	took, failures := load.NewHistogram(), 0
	for _, t := range all[first+1:] {
		if t.took == failed {
			failures++
			continue
		}
		_ = took.RecordValue(t.took * int64(time.Microsecond)) // below the hour that a histogram holds
	}

	run := runOfLatency(took)
	run.Figures[errorCount] = float64(failures)
	window := max(1, all[len(all)-1].ended-all[first].ended)
	run.Figures[perSecond] = 1e6 * float64(took.TotalCount()) / float64(window)
	return run, nil
}
