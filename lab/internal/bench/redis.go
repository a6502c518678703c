package bench

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/rowlock/rowlock/platform/localpg/guard"
)

// incr returns a run of Redis with a flush to disk before each answer: as many callers as named, without pipelining,
// increment one of the counters each time, each equally likely. A private server runs for the time of the run alone.
func (r *runner) incr(callers, counters int) func(context.Context) (Result, error) {
	return func(ctx context.Context) (result Result, err error) {
		server, serverErr := exec.LookPath("redis-server")
		client, clientErr := exec.LookPath("redis-benchmark")
		if err := errors.Join(serverErr, clientErr); err != nil {
			return Result{}, fmt.Errorf("%w: redis-server and redis-benchmark are not on PATH "+
				"(Debian's packages redis-server and redis-tools)", errLeftOut)
		}

		redis, stop, err := listen(ctx, "redis", func(port int, dir string, user *guard.User) guard.Spec {
			return guard.Spec{
				Path: server, Args: []string{
					"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", dir,
					"--appendonly", "yes", "--appendfsync", "always", "--save", "", // no snapshots beside the log
				},
				Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin"}, Dir: "/", User: user, Remove: dir,
			}
		})
		if err != nil {
			return Result{}, err
		}
		defer func() { err = errors.Join(err, stop()) }()

		// It counts requests, not seconds: the warm-up says how many there are in a second.
		const first = 10_000
		figures := Figures{perSecond: first / r.Duration.Seconds()}
		for range 2 {
			requests := max(first, int(figures[perSecond]*r.Duration.Seconds()))
			text, err := output(ctx, client, "", nil, "-n", strconv.Itoa(requests), "-p", strconv.Itoa(redis.Port()),
				"-c", strconv.Itoa(callers), "-r", strconv.Itoa(counters), "--csv", "INCR", "bench-__rand_int__")
			if err == nil {
				figures, err = parseRedisBenchmark(text)
			}
			if err != nil {
				return Result{}, fmt.Errorf("redis-benchmark: %w", err)
			}
		}
		return Result{Figures: figures}, nil
	}
}

// parseRedisBenchmark reads the lines that redis-benchmark prints since Redis 6.2: the columns' names, and one test.
func parseRedisBenchmark(output string) (Figures, error) {
	lines, err := csv.NewReader(strings.NewReader(output)).ReadAll()
	if err != nil || len(lines) != 2 {
		return nil, fmt.Errorf("the output is no table of one line: %q", output)
	}
	figures := Figures{}
	for figure, column := range map[string]string{perSecond: "rps", p50: "p50_latency_ms", p99: "p99_latency_ms"} {
		i := slices.Index(lines[0], column)
		if i < 0 {
			return nil, fmt.Errorf("the output lacks %s: %q", column, output)
		}
		if figures[figure], err = strconv.ParseFloat(lines[1][i], 64); err != nil {
			return nil, fmt.Errorf("the output: %w", err)
		}
	}
	return figures, nil
}
