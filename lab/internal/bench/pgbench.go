package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/rowlock/rowlock/lab/internal/load"
)

// pgbench measures what PostgreSQL does without any service in front of it: the baseline which the speed of a service
// is held against. Its load is the usual one for a small machine: enough clients to keep group commit inside PostgreSQL
// busy. The sweep has as many clients as the service has callers.
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

// bare returns a run of a transaction, in pgbench's language, by pgbenchClients for the duration.
func (r *runner) bare(transaction string) func(context.Context) (Result, error) {
	return func(ctx context.Context) (Result, error) {
		figures, err := r.pgbenchRun(ctx, transaction, pgbenchClients, r.Duration, "")
		return Result{Figures: figures}, err
	}
}

// timed returns a run of a transaction by as many clients as are named, whose figures have latencies. They come from
// pgbench's log of all transactions, whose writing takes a little of the machine: nothing is judged by them.
func (r *runner) timed(transaction string, clients int, duration time.Duration) func(context.Context) (Result, error) {
	return func(ctx context.Context) (run Result, err error) {
		dir, err := os.MkdirTemp("", "rowlock-pgbench-")
		if err != nil {
			return Result{}, fmt.Errorf("make a folder for pgbench's log: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		figures, err := r.pgbenchRun(ctx, transaction, clients, duration, dir)
		if err != nil {
			return Result{}, err
		}
		took, err := readLog(dir)
		if err != nil {
			return Result{}, fmt.Errorf("read pgbench's log: %w", err)
		}
		run = runOfLatency(took)
		maps.Copy(run.Figures, figures)
		return run, nil
	}
}

// pgbenchRun runs pgbench for the duration in whole seconds, with its log in the folder if one is named. Where that is
// not enough to make the connections, on a machine that is overloaded, it runs again for twice as long, thrice at most.
func (r *runner) pgbenchRun(
	ctx context.Context, transaction string, clients int, duration time.Duration, logs string,
) (Figures, error) {
	if r.pgbench == "" {
		return nil, errLeftOut
	}
	for most := 8 * duration; ; duration *= 2 {
		args := []string{
			"--no-vacuum", "--protocol=prepared", "--client=" + strconv.Itoa(clients),
			"--jobs=" + strconv.Itoa(min(clients, pgbenchThreads)),
			"--time=" + strconv.Itoa(int(math.Ceil(duration.Seconds()))), "--file=-",
		}
		if logs != "" {
			args = append(args, "--log", "--log-prefix="+filepath.Join(logs, "log"))
		}
		output, err := r.runPgbench(ctx, transaction, args)
		if err != nil {
			return nil, fmt.Errorf("pgbench: %w", err)
		}
		figures, err := parsePgbench(output)
		if !errors.Is(err, errNoTransactions) || duration >= most {
			return figures, err
		}
	}
}

// runPgbench passes the URL by the environment: among the arguments it would show the password in the process list.
func (r *runner) runPgbench(ctx context.Context, transaction string, args []string) (string, error) {
	const stopWait = 5 * time.Second // after an interrupt
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, r.pgbench, args...)
	cmd.Env = append(cmd.Environ(), "PGDATABASE="+r.url, "LC_ALL=C") // the summary is parsed
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(transaction), &stdout, &stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = stopWait
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%w: %s", errors.Join(context.Cause(ctx), err), strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// readLog returns the latencies in the logs of pgbench's threads, of the transactions that succeeded. A line has the
// client, the transaction's number, its time in microseconds (or why it failed), the script, and when it ended.
func readLog(dir string) (*hdrhistogram.Histogram, error) {
	took := load.NewHistogram()
	files, err := filepath.Glob(filepath.Join(dir, "log.*"))
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", dir, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read a log: %w", err)
		}
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line)
			if len(fields) < 6 {
				return nil, fmt.Errorf("%s has a line of another form: %q", file, line)
			}
			if us, err := strconv.ParseInt(fields[2], 10, 64); err == nil {
				_ = took.RecordValue(us * int64(time.Microsecond)) // below the hour that a histogram holds
			}
		}
	}
	if took.TotalCount() == 0 {
		return nil, errors.New("it has no transactions")
	}
	return took, nil
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
