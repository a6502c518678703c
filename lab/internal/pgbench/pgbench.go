package pgbench

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
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

// Find returns the pgbench program: the one in binDir (the folder of the server's programs; may be empty) before one on
// PATH.
func Find(binDir string) (string, error) {
	if binDir != "" {
		path := filepath.Join(binDir, "pgbench")
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			return path, nil
		}
	}
	path, err := exec.LookPath("pgbench")
	if err != nil {
		return "", fmt.Errorf("pgbench is not beside the server nor on PATH; "+
			"it comes with PostgreSQL's contrib or client package: %w", err)
	}
	return path, nil
}

// maxTries bounds how often Run lets pgbench begin again with more time.
const maxTries = 4

// Run runs transactions, in pgbench's language, on a database by the program for the duration, whole seconds and at
// least one, and returns what pgbench reports. Where that is not enough to make the connections, on a machine that is
// overloaded, it runs again for twice as long.
func Run(ctx context.Context, binary, databaseURL, transaction string, duration time.Duration) (Result, error) {
	env, err := environment(databaseURL)
	if err != nil {
		return Result{}, err
	}
	for try := 1; ; try++ {
		result, err := run(ctx, binary, env, transaction, duration)
		if !errors.Is(err, errNoTransactions) || try == maxTries {
			return result, err
		}
		duration = 2 * max(duration, time.Second)
	}
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
		err = errors.Join(context.Cause(ctx), err)
		return Result{}, fmt.Errorf("pgbench: %w: %s", err, strings.TrimSpace(stderr.String()))
	}
	return parse(stdout.String())
}

// environment passes the connection by libpq's variables: a URL among the arguments would show the password in the
// process list, and libpq refuses the parameters that only lib/pq knows.
func environment(databaseURL string) (env []string, err error) {
	parsed, err := url.Parse(databaseURL)
	if err != nil {
		return nil, errors.New("pgbench: the database URL is not a URL") // the error of url.Parse would print the password
	}
	query := parsed.Query()
	password, _ := parsed.User.Password()
	for name, value := range map[string]string{
		"PGHOST":        cmp.Or(parsed.Hostname(), query.Get("host")),
		"PGPORT":        cmp.Or(parsed.Port(), query.Get("port")),
		"PGUSER":        cmp.Or(parsed.User.Username(), query.Get("user")),
		"PGPASSWORD":    cmp.Or(password, query.Get("password")),
		"PGDATABASE":    strings.TrimPrefix(parsed.Path, "/"),
		"PGSSLMODE":     query.Get("sslmode"),
		"PGSSLROOTCERT": query.Get("sslrootcert"),
		"PGSSLCERT":     query.Get("sslcert"),
		"PGSSLKEY":      query.Get("sslkey"),
		"LC_ALL":        "C", // the summary is parsed
	} {
		if value != "" {
			env = append(env, name+"="+value)
		}
	}
	return env, nil
}
