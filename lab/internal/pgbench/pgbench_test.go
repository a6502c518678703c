package pgbench

import (
	"database/sql"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/localpg"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }

func find(t *testing.T) string {
	t.Helper()

	environ := config.Environ()

	binDir, err := localpg.Find(t.Context(), environ)
	if err != nil {
		t.Log(err) // pgbench may be on PATH still
	}

	binary, err := Find(binDir)

	switch {
	case err == nil:
		return binary
	case environ["CI"] == "true":
		t.Fatal(err)
	default:
		t.Skip(err)
	}

	return ""
}

func TestRun(t *testing.T) {
	t.Parallel()

	const rows = 50

	binary, databaseURL := find(t), dbtest.Empty(t)

	bench, err := New(t.Context(), binary, databaseURL, rows)
	if err != nil {
		t.Fatal(err)
	}

	uniform, err := bench.Run(t.Context(), Uniform, 100*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}

	oneRow, err := bench.Run(t.Context(), OneRow, 100*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}

	db, err := sql.Open("postgres", databaseURL)
	if err != nil {
		t.Fatal(err)
	}

	defer func() { _ = db.Close() }()

	var sum, touched, first int64

	err = db.QueryRowContext(t.Context(), `SELECT sum(value)::bigint, count(*) FILTER (WHERE value > 0), max(value) FILTER (WHERE id = 1)
		FROM rowlock_bench.counters`).Scan(&sum, &touched, &first)
	if err != nil {
		t.Fatal(err)
	}

	// What pgbench reports is what is in the table.
	if want := uniform.Transactions + oneRow.Transactions; sum != want {
		t.Errorf("the counters add up to %d, pgbench reports %d", sum, want)
	}

	if touched != rows || first < oneRow.Transactions {
		t.Errorf("%d rows were updated, row 1 %d times; want all %d, and row 1 at least %d times", touched, first, rows, oneRow.Transactions)
	}

	if uniform.TPS <= 0 || uniform.Latency <= 0 || uniform.Failed != 0 {
		t.Errorf("uniform: %+v", uniform)
	}

	var options string
	if err := db.QueryRowContext(t.Context(), `SELECT reloptions::text FROM pg_class WHERE oid = 'rowlock_bench.counters'::regclass`).
		Scan(&options); err != nil || options != "{"+serviceFillFactor(t)+"}" {
		t.Errorf("the table has %s, %v; the service's has %s", options, err, serviceFillFactor(t))
	}

	// A second bench begins with a fresh table.
	if _, err := New(t.Context(), binary, databaseURL, rows); err != nil {
		t.Error(err)
	}
}

// serviceFillFactor is what the migrations of counts say last.
func serviceFillFactor(t *testing.T) string {
	t.Helper()

	files, err := filepath.Glob("../../../services/counts/internal/postgres/migrations/*.sql")
	if err != nil {
		t.Fatal(err)
	}

	var found []string

	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}

		found = append(found, regexp.MustCompile(`fillfactor\s*=\s*\d+`).FindAllString(string(text), -1)...)
	}

	if len(found) == 0 {
		t.Fatal("the migrations of counts name no fillfactor: then the baseline must have none")
	}

	return strings.ReplaceAll(found[len(found)-1], " ", "")
}

func TestErrorsShowNoPassword(t *testing.T) {
	t.Parallel()

	binary := find(t)
	env, err := environment("postgres://app:geheim@127.0.0.1:1/none?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}

	bench := &Bench{binary: binary, env: env, rows: 1}

	_, err = bench.Run(t.Context(), Uniform, time.Second)
	if err == nil || strings.Contains(err.Error(), "geheim") || !strings.Contains(err.Error(), "127.0.0.1") {
		t.Errorf("no server: error %v, want one that names the address and not the password", err)
	}
}

func TestFind(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	beside := filepath.Join(dir, "pgbench")

	if err := os.WriteFile(beside, nil, 0o600); err != nil {
		t.Fatal(err)
	}

	if got, err := Find(dir); err != nil || got != beside {
		t.Errorf("%s, %v; want the one beside the server", got, err)
	}
}

func TestRunWithoutATransactionIsRepeatedWithMoreTime(t *testing.T) {
	t.Parallel()

	// A program that keeps its arguments, and finishes its first transaction only when it has 4 s.
	binary := filepath.Join(t.TempDir(), "pgbench")
	script := `#!/bin/sh
echo "$*" >>"$0.log"
case "$*" in
*--time=4*) printf 'number of transactions actually processed: 3\nlatency average = 1.0 ms\ntps = 3 (without initial connection time)\n' ;;
*) echo 'number of transactions actually processed: 0' ;;
esac
`

	if err := os.WriteFile(binary, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}

	bench := &Bench{binary: binary, rows: 7}

	got, err := bench.Run(t.Context(), OneRow, time.Second)
	if err != nil || got.Transactions != 3 {
		t.Errorf("%+v, %v; want 3 transactions", got, err)
	}

	log, err := os.ReadFile(binary + ".log")
	if err != nil || strings.Count(string(log), "--protocol=prepared --client=32 --jobs=2") != 3 {
		t.Errorf("%v; the runs were:\n%swant 1, 2 and 4 s", err, log)
	}
}
