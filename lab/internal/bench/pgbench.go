package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// pgbench measures what PostgreSQL does without any service in front of it: the baseline which the speed of a service
// is held against. Its load is the usual one for a small machine: enough clients to keep group commit inside PostgreSQL
// busy.
const (
	pgbenchClients = 32
	pgbenchThreads = 2
)

// fillFactor is that of a table to update, in percent: the same as counts.count_values has, for the two to be
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

// errNoTransactions reports a run that was over before its first transaction: the time that making the connections
// takes counts.
var errNoTransactions = errors.New("no transaction ended in the time it had")

// bare returns a run of a transaction, in pgbench's language, for the duration in whole seconds. Where that is not
// enough to make the connections, on a machine that is overloaded, it runs again for twice as long, thrice at most.
func (r *runner) bare(transaction string) func(context.Context) (Result, error) {
	return func(ctx context.Context) (Result, error) {
		if r.pgbench == "" {
			return Result{}, errLeftOut
		}
		for duration := r.Duration; ; duration *= 2 {
			output, err := r.runPgbench(ctx, transaction, duration)
			if err != nil {
				return Result{}, fmt.Errorf("pgbench: %w", err)
			}
			figures, err := parsePgbench(output)
			if !errors.Is(err, errNoTransactions) || duration >= 8*r.Duration {
				return Result{Figures: figures}, err
			}
		}
	}
}

// runPgbench passes the URL by the environment: among the arguments it would show the password in the process list.
func (r *runner) runPgbench(ctx context.Context, transaction string, duration time.Duration) (string, error) {
	const stopWait = 5 * time.Second // after an interrupt
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, r.pgbench, "--no-vacuum", "--protocol=prepared",
		"--client="+strconv.Itoa(pgbenchClients), "--jobs="+strconv.Itoa(pgbenchThreads),
		"--time="+strconv.Itoa(int(math.Ceil(duration.Seconds()))), "--file=-")
	cmd.Env = append(cmd.Environ(), "PGDATABASE="+r.url, "LC_ALL=C") // the summary is parsed
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(transaction), &stdout, &stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = stopWait
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%w: %s", errors.Join(context.Cause(ctx), err), strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// parsePgbench reads the summary that pgbench prints since PostgreSQL 14: transactions per second without the time that
// making the connections took, and, since 15, those given up after a serialization failure or deadlock.
func parsePgbench(output string) (Figures, error) {
	processed, ok := summaryLine(output, `number of transactions actually processed: (\d+)`)
	if ok && processed == 0 { // then the rest of the summary is left out
		return nil, errNoTransactions
	}
	tps, hasTPS := summaryLine(output, `tps = ([0-9.]+) \(without initial connection time`)
	if !ok || !hasTPS {
		return nil, errors.New("the summary of pgbench lacks the number of transactions or the rate")
	}
	failed, _ := summaryLine(output, `number of failed transactions: (\d+)`)
	return Figures{perSecond: tps, errorCount: failed}, nil
}

// summaryLine returns the number in the line that begins as the pattern says.
func summaryLine(output, pattern string) (v float64, ok bool) {
	match := regexp.MustCompile(`(?m)^` + pattern).FindStringSubmatch(output)
	if match == nil {
		return 0, false
	}
	v, err := strconv.ParseFloat(match[1], 64)
	return v, err == nil
}
