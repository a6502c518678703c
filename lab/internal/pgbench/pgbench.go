package pgbench

import (
	"bytes"
	"context"
	"database/sql"
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

	_ "github.com/lib/pq" // the driver that Prepare makes the table with
)

// The load is the usual one for a small machine: enough clients to keep group commit inside PostgreSQL busy.
const (
	Clients = 32
	Threads = 2
)

// FillFactor is that of the table, in percent: the same as counts.count_values has, for the two to be comparable. PostgreSQL's default
// is 100, which leaves no room for a row's new version on its page and so costs the index an entry for most updates.
const FillFactor = 50

// Target is the part of the table that the transactions update.
type Target uint8

const (
	// Uniform draws one of all rows for each transaction, each equally likely.
	Uniform Target = iota
	// OneRow updates the same row in every transaction.
	OneRow
)

// stopWait is how long pgbench may take to stop after an interrupt.
const stopWait = 5 * time.Second

// Bench is a table to update and the program that does it.
type Bench struct {
	binary string
	env    []string
	rows   int
}

// Find returns the pgbench program: the one in binDir (the folder of the server's programs; may be empty) before one on PATH.
func Find(binDir string) (string, error) {
	if binDir != "" {
		path := filepath.Join(binDir, "pgbench")
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			return path, nil
		}
	}

	path, err := exec.LookPath("pgbench")
	if err != nil {
		return "", fmt.Errorf("pgbench is not beside the server nor on PATH; it comes with PostgreSQL's contrib or client package: %w", err)
	}

	return path, nil
}

// New makes the table with so many rows anew, in a schema of its own, rowlock_bench. databaseURL needs the right to create a schema.
func New(ctx context.Context, binary, databaseURL string, rows int) (*Bench, error) {
	env, err := environment(databaseURL)
	if err != nil {
		return nil, err
	}

	if err := prepare(ctx, databaseURL, rows); err != nil {
		return nil, fmt.Errorf("pgbench: make the table to update: %w", err)
	}

	return &Bench{binary: binary, env: env, rows: rows}, nil
}

// NewScript is for [Bench.RunScript] alone: it makes no table.
func NewScript(binary, databaseURL string) (*Bench, error) {
	env, err := environment(databaseURL)
	if err != nil {
		return nil, err
	}

	return &Bench{binary: binary, env: env}, nil
}

func prepare(ctx context.Context, databaseURL string, rows int) (err error) {
	db, err := sql.Open("postgres", databaseURL)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}

	defer func() { err = errors.Join(err, db.Close()) }()

	conn, err := db.Conn(ctx) // pinned: database/sql repeats what it sends through *sql.DB as it sees fit
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}

	defer func() { err = errors.Join(err, conn.Close()) }()

	for _, statement := range []string{
		`CREATE SCHEMA IF NOT EXISTS rowlock_bench`,
		`DROP TABLE IF EXISTS rowlock_bench.counters`,
		`CREATE TABLE rowlock_bench.counters (id bigint PRIMARY KEY, value bigint NOT NULL DEFAULT 0) WITH (fillfactor = ` +
			strconv.Itoa(FillFactor) + `)`,
		`INSERT INTO rowlock_bench.counters (id) SELECT generate_series(1, ` + strconv.Itoa(rows) + `)`,
		`VACUUM (ANALYZE) rowlock_bench.counters`,
	} {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}

	return nil
}

// maxTries bounds how often Run lets pgbench begin again with more time.
const maxTries = 4

// Run updates for the duration, whole seconds and at least one, and returns what pgbench reports. Where that is not enough to make the
// connections, on a machine that is overloaded, it runs again for twice as long.
func (b *Bench) Run(ctx context.Context, target Target, duration time.Duration) (Result, error) {
	last := b.rows
	if target == OneRow {
		last = 1 // the same statement and plan; only the row does not change
	}

	return b.RunScript(ctx,
		fmt.Sprintf("\\set id random(1, %d)\nUPDATE rowlock_bench.counters SET value = value + 1 WHERE id = :id;\n", last), duration)
}

// RunScript is Run for a transaction of the caller's own, in pgbench's language.
func (b *Bench) RunScript(ctx context.Context, text string, duration time.Duration) (Result, error) {
	script, err := writeScript(text)
	if err != nil {
		return Result{}, err
	}

	result, err := b.run(ctx, script, duration)
	for try := 1; errors.Is(err, errNoTransactions) && try < maxTries; try++ {
		duration = 2 * max(duration, time.Second)
		result, err = b.run(ctx, script, duration)
	}

	return result, errors.Join(err, os.Remove(script))
}

func (b *Bench) run(ctx context.Context, script string, duration time.Duration) (Result, error) {
	var stdout, stderr bytes.Buffer

	seconds := max(1, int(math.Ceil(duration.Seconds())))
	cmd := exec.CommandContext(ctx, b.binary, "--no-vacuum", "--protocol=prepared", "--client="+strconv.Itoa(Clients),
		"--jobs="+strconv.Itoa(Threads), "--time="+strconv.Itoa(seconds), "--file="+script)
	cmd.Env = append(cmd.Environ(), b.env...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = stopWait

	if err := cmd.Run(); err != nil {
		return Result{}, fmt.Errorf("pgbench: %w: %s", errors.Join(context.Cause(ctx), err), strings.TrimSpace(stderr.String()))
	}

	return parse(stdout.String())
}

// writeScript writes the transaction to a temporary file; pgbench reads it from nowhere else but its own standard input.
func writeScript(text string) (path string, err error) {
	file, err := os.CreateTemp("", "rowlock-pgbench-*.sql")
	if err != nil {
		return "", fmt.Errorf("pgbench: make the script: %w", err)
	}

	_, err = file.WriteString(text)
	if err = errors.Join(err, file.Close()); err != nil {
		return "", errors.Join(fmt.Errorf("pgbench: write the script: %w", err), os.Remove(file.Name()))
	}

	return file.Name(), nil
}

// environment hands the connection over by libpq's variables: a URL among the arguments would show the password in the process list, and
// libpq refuses the parameters that only lib/pq knows.
func environment(databaseURL string) ([]string, error) {
	parsed, err := url.Parse(databaseURL)
	if err != nil {
		return nil, errors.New("pgbench: the database URL is not a URL") // the error of url.Parse would print the password
	}

	query := parsed.Query()
	password, _ := parsed.User.Password()
	variables := map[string]string{
		"PGHOST":        firstOf(parsed.Hostname(), query.Get("host")),
		"PGPORT":        firstOf(parsed.Port(), query.Get("port")),
		"PGUSER":        firstOf(parsed.User.Username(), query.Get("user")),
		"PGPASSWORD":    firstOf(password, query.Get("password")),
		"PGDATABASE":    strings.TrimPrefix(parsed.Path, "/"),
		"PGSSLMODE":     query.Get("sslmode"),
		"PGSSLROOTCERT": query.Get("sslrootcert"),
		"PGSSLCERT":     query.Get("sslcert"),
		"PGSSLKEY":      query.Get("sslkey"),
		"LC_ALL":        "C", // the summary is parsed
	}

	env := make([]string, 0, len(variables))

	for name, value := range variables {
		if value != "" {
			env = append(env, name+"="+value)
		}
	}

	return env, nil
}

func firstOf(values ...string) string {
	for _, value := range values {
		if value != "" {
			return value
		}
	}

	return ""
}
