// Package pgbench measures what PostgreSQL does without any service in front of it, by its own benchmark program: one
// prepared single-row UPDATE per transaction. That is the baseline which the speed of a service is held against.
package pgbench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The load is the usual one for a small machine: enough clients to keep group commit inside PostgreSQL busy.
const (
	Clients = 32
	Threads = 2
)

// FillFactor is that of a table to update, in percent: the same as counts.count_values has, for the two to be
// comparable. PostgreSQL's default is 100, which leaves no room for a row's new version on its page and so costs the
// index an entry for most updates.
const FillFactor = 50

// stopWait is how long pgbench may take to stop after an interrupt.
const stopWait = 5 * time.Second

// Result is what one run of pgbench reported.
type Result struct {
	// TPS is the number of transactions per second without the time that making the connections took.
	TPS float64
	// Failed is the number of transactions given up after a serialization failure or deadlock. Before version 15
	// pgbench ends its client on such an error instead, and Failed stays 0.
	Failed float64
}

// Find returns the pgbench program: the one in binDir (the folder of the server's programs; may be empty) before one on
// PATH.
func Find(binDir string) (string, error) {
	for _, name := range []string{filepath.Join(binDir, "pgbench"), "pgbench"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("pgbench is not beside the server nor on PATH; " +
		"it comes with PostgreSQL's contrib or client package")
}

// maxTries bounds how often Run lets pgbench begin again with more time.
const maxTries = 4

// Run runs transactions, in pgbench's language, on a database by the program for the duration, whole seconds and at
// least one, and returns what pgbench reports. Where that is not enough to make the connections, on a machine that is
// overloaded, it runs again for twice as long.
func Run(
	ctx context.Context, binary, databaseURL, transaction string, duration time.Duration,
) (result Result, err error) {
	env, err := environment(databaseURL)
	for try := 0; try < maxTries && (err == nil || errors.Is(err, errNoTransactions)); try++ {
		if result, err = run(ctx, binary, env, transaction, duration); err == nil {
			return result, nil
		}
		duration = 2 * max(duration, time.Second)
	}
	return Result{}, fmt.Errorf("pgbench: %w", err)
}

func run(ctx context.Context, binary string, env []string, transaction string, duration time.Duration) (Result, error) {
	var stdout, stderr bytes.Buffer
	seconds := max(1, int(math.Ceil(duration.Seconds())))
	cmd := exec.CommandContext(ctx, binary, "--no-vacuum", "--protocol=prepared", "--client="+strconv.Itoa(Clients),
		"--jobs="+strconv.Itoa(Threads), "--time="+strconv.Itoa(seconds), "--file=-")
	cmd.Env = append(cmd.Environ(), env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(transaction), &stdout, &stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = stopWait
	if err := cmd.Run(); err != nil {
		return Result{}, fmt.Errorf("%w: %s", errors.Join(context.Cause(ctx), err), strings.TrimSpace(stderr.String()))
	}
	return parse(stdout.String())
}

// environment passes the connection by libpq's variables: a URL among the arguments would show the password in the
// process list.
func environment(databaseURL string) ([]string, error) {
	u, err := url.Parse(databaseURL)
	if err != nil {
		return nil, errors.New("the database URL is not a URL") // the error of url.Parse would print the password
	}
	password, _ := u.User.Password()
	return []string{
		"PGHOST=" + u.Hostname(), "PGPORT=" + u.Port(), "PGUSER=" + u.User.Username(), "PGPASSWORD=" + password,
		"PGDATABASE=" + strings.TrimPrefix(u.Path, "/"), "PGSSLMODE=" + u.Query().Get("sslmode"),
		"LC_ALL=C", // the summary is parsed
	}, nil
}

// errNoTransactions reports a run that was over before its first transaction: the time that making the connections
// takes counts.
var errNoTransactions = errors.New("no transaction ended in the time it had")

// parse reads the summary that pgbench 10 to 18 prints to standard output. Until version 13 pgbench printed two rates,
// with and without the connections; since 14 it prints the one without.
func parse(output string) (Result, error) {
	processed, ok := number(output, `number of transactions actually processed: (\d+)`)
	if ok && processed == 0 { // then the rest of the summary is left out
		return Result{}, errNoTransactions
	}
	tps, hasTPS := number(output, `tps = ([0-9.]+) \((?:without initial connection time|excluding connections)`)
	if !ok || !hasTPS {
		return Result{}, errors.New("its summary lacks the number of transactions or the rate")
	}
	failed, _ := number(output, `number of failed transactions: (\d+)`)
	return Result{TPS: tps, Failed: failed}, nil
}

// number returns the number in the line of the output that begins as the pattern says.
func number(output, pattern string) (v float64, ok bool) {
	match := regexp.MustCompile(`(?m)^` + pattern).FindStringSubmatch(output)
	if match == nil {
		return 0, false
	}
	v, err := strconv.ParseFloat(match[1], 64)
	return v, err == nil
}
