package bench

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

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

		redis, dir, err := startRedis(ctx, server)
		if err != nil {
			return Result{}, fmt.Errorf("redis: %w", err)
		}
		defer func() { err = errors.Join(err, redis.Kill(), os.RemoveAll(dir)) }()
		_, port, _ := net.SplitHostPort(redis.Address())
		args := []string{
			"-p", port, "-c", strconv.Itoa(callers), "-r", strconv.Itoa(counters), "--csv", "INCR", "bench-__rand_int__",
		}

		// It counts requests, not seconds: the warm-up says how many there are in a second.
		const first = 10_000
		warm, err := runRedisBenchmark(ctx, client, first, args)
		if err != nil {
			return Result{}, err
		}
		figures, err := runRedisBenchmark(ctx, client, max(first, int(warm[perSecond]*r.Duration.Seconds())), args)
		return Result{Figures: figures}, err
	}
}

// startRedis starts a server on a disk, whose folder is to be removed after it has ended.
func startRedis(ctx context.Context, program string) (server *guard.Server, dir string, err error) {
	user, err := guard.Unprivileged()
	if err != nil {
		return nil, "", err
	}
	if dir, err = guard.TempFolder(serverParent, "rowlock-redis-*"); err == nil {
		err = user.Own(dir)
	}
	if err != nil {
		return nil, "", errors.Join(err, os.RemoveAll(dir))
	}

	server = guard.NewServer(guard.Config{
		Name: "redis",
		Spec: func(port int) (guard.Spec, error) {
			return guard.Spec{
				Path: program, Args: []string{
					"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", dir,
					"--appendonly", "yes", "--appendfsync", "always", "--save", "", // no snapshots beside the log
				},
				Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin"}, Dir: "/", User: user, Remove: dir,
			}, nil
		},
		LogFile: filepath.Join(dir, "messages"),
		Ready: func(ctx context.Context) error {
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", server.Address())
			if err != nil {
				return err //nolint:wrapcheck // it is asked again
			}
			return conn.Close()
		},
		Stop: syscall.SIGTERM, Kill: syscall.SIGKILL,
	})

	if err := server.Start(ctx, 0); err != nil {
		return nil, "", errors.Join(err, os.RemoveAll(dir))
	}
	return server, dir, nil
}

// runRedisBenchmark sends as many requests and returns the figures of the line that the program prints.
func runRedisBenchmark(ctx context.Context, program string, requests int, args []string) (Figures, error) {
	const stopWait = 5 * time.Second // after an interrupt
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, program, append([]string{"-n", strconv.Itoa(requests)}, args...)...)
	cmd.Env = append(cmd.Environ(), "LC_ALL=C") // the line is parsed
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = stopWait
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("redis-benchmark: %w: %s", errors.Join(context.Cause(ctx), err),
			strings.TrimSpace(stderr.String()))
	}
	return parseRedisBenchmark(stdout.String())
}

// parseRedisBenchmark reads the lines that redis-benchmark prints since Redis 6.2: the columns' names, and one test.
func parseRedisBenchmark(output string) (Figures, error) {
	lines, err := csv.NewReader(strings.NewReader(output)).ReadAll()
	if err != nil || len(lines) != 2 {
		return nil, fmt.Errorf("the output of redis-benchmark is no table of one line: %q", output)
	}
	figures := Figures{}
	for figure, column := range map[string]string{perSecond: "rps", p50: "p50_latency_ms", p99: "p99_latency_ms"} {
		i := slices.Index(lines[0], column)
		if i < 0 {
			return nil, fmt.Errorf("the output of redis-benchmark lacks %s: %q", column, output)
		}
		if figures[figure], err = strconv.ParseFloat(lines[1][i], 64); err != nil {
			return nil, fmt.Errorf("the output of redis-benchmark: %w", err)
		}
	}
	return figures, nil
}
