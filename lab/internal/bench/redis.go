package bench

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"

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

		// It counts requests, not seconds: this many take less than the duration on most disks.
		requests := 20_000 * int(r.Duration.Seconds())
		text, err := output(ctx, client, "", nil, "-n", strconv.Itoa(requests), "-p", strconv.Itoa(redis.Port()),
			"-c", strconv.Itoa(callers), "-r", strconv.Itoa(counters), "--csv", "INCR", "bench-__rand_int__")
		if err != nil {
			return Result{}, fmt.Errorf("redis-benchmark: %w", err)
		}
		row := regexp.MustCompile(`(?m)^"[^"]*","([0-9.]+)"`).FindStringSubmatch(text) // the rate is its second column
		if row == nil {
			return Result{}, fmt.Errorf("redis-benchmark prints no rate: %q", text)
		}
		rate, err := strconv.ParseFloat(row[1], 64)
		return Result{Figures: Figures{perSecond: rate}}, err
	}
}
