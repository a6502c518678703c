package bench

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/localpg"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }

// pgbenchOn returns a runner with the program on a database.
func pgbenchOn(program, url string) *runner {
	return &runner{Options: Options{Duration: time.Second}, host: Host{Progress: io.Discard}, pgbench: program, url: url}
}

// findInstalled returns the program. It skips the test where there is none, but not in CI.
func findInstalled(t *testing.T) string {
	t.Helper()
	binDir, err := localpg.Find(t.Context(), config.Environ())
	if err != nil {
		t.Log(err) // pgbench may be on PATH still
	}
	program, err := findPgbench(binDir)
	if err != nil && config.Environ()["CI"] != "true" {
		t.Skip(err)
	}
	return program
}

func TestBare(t *testing.T) {
	t.Parallel()
	r := pgbenchOn(findInstalled(t), dbtest.Empty(t))
	if err := execute(t.Context(), r.url, `CREATE TABLE counter AS SELECT 0::bigint AS value`); err != nil {
		t.Fatal(err)
	}
	got, err := r.bare("UPDATE counter SET value = value + 1;\n")(t.Context())
	if err != nil || got.Figures[perSecond] <= 0 || got.Figures[errorCount] != 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	if sum, err := number(r.url, `SELECT value FROM counter`)(t.Context()); err != nil || sum == 0 {
		t.Errorf("the counter is %d, %v", sum, err)
	}
}

// The tables that are compared have one fillfactor.
func TestFillFactor(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../../services/counts/internal/postgres/migrations/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	last, table := "", regexp.MustCompile(`(?s)count_values \([^;]*fillfactor\s*=\s*(\d+)`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range table.FindAllStringSubmatch(string(text), -1) {
			last = found[1]
		}
	}
	if last != strconv.Itoa(fillFactor) {
		t.Errorf("the service's table has the fillfactor %q", last)
	}
}

// A run that was over before its first transaction is no figure: it is repeated with more time.
func TestBareWithoutATransaction(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "pgbench")
	script := `#!/bin/sh
case "$*" in
*--time=4*)
	printf 'number of transactions actually processed: 3\nnumber of failed transactions: 2 (0.001%%)\n'
	echo 'tps = 3.5 (without initial connection time)' ;;
*) echo 'number of transactions actually processed: 0' ;;
esac
`
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	got, err := pgbenchOn(program, "").bare("SELECT 1;")(t.Context())
	if err != nil || got.Figures[perSecond] != 3.5 || got.Figures[errorCount] != 2 {
		t.Errorf("%+v, %v; want 3.5 a second and 2 errors", got, err)
	}
	for _, output := range []string{
		"", "number of transactions actually processed: 10\nlatency average = 0.100 ms\n",
		strings.Repeat("number of transactions actually processed: many\n", 2),
	} {
		if got, err := parsePgbench(output); err == nil {
			t.Errorf("%s: %+v, want an error", output, got)
		}
	}
}

// The figures of a sweep come from the logs of all threads, without the warm-up and transactions that failed.
func TestTimed(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "pgbench")
	script := `#!/bin/sh
for word; do
	case $word in --log-prefix=*) prefix=${word#*=} ;; esac
done
printf '0 0 9000 0 1763856000 0\n0 1 9000 0 1763856000 100000\n' >"$prefix.7"
printf '0 2 1000 0 1763856000 500000\n0 3 3000 0 1763856001 500000\n' >>"$prefix.7"
printf '1 1 2000 0 1763856001 0\n1 2 serialization 0 1763856009 0\n' >"$prefix.7.1"
printf 'number of transactions actually processed: 4\ntps = 3.5 (without initial connection time)\n'
printf 'number of failed transactions: 1 (0.001%%)\n'
`
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	got, err := pgbenchOn(program, "").timed("SELECT 1;", 2, 400*time.Millisecond, time.Second)(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for figure, want := range map[string]float64{perSecond: 2, p50: 2, maxLatency: 3, errorCount: 1} {
		if v := got.Figures[figure]; v < want || v > 1.001*want {
			t.Errorf("%s is %g, want %g", figure, v, want)
		}
	}
	for _, text := range []string{"", "0 1 1000 0\n", "0 1 1000 0 now 0\n", "0 1 1000 0 1763856000 0\n"} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "log.7"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readLog(dir, 0); err == nil {
			t.Errorf("the log %q: no error", text)
		}
	}
}

// The anchors do what they say: each transaction leaves a payment with its completed key, or a coin.
func TestScripts(t *testing.T) {
	t.Parallel()
	program := findInstalled(t)
	for name, tc := range map[string]struct {
		tables        func(*runner, context.Context) error
		script, wrong string
	}{
		"payments": {(*runner).paymentTables, paymentScript, `SELECT count(*) FROM rowlock_bench.payments
			FULL JOIN rowlock_bench.keys USING (key)
			WHERE (status = 'COMPLETED' AND octet_length(response) = 100 AND id IS NOT NULL) IS NOT TRUE`},
		"pots": {(*runner).coinTable, potScript(manyPots), `SELECT greatest(0, 10 - count(*)) FROM rowlock_bench.coin
			WHERE n > 0`},
		"one pot": {(*runner).coinTable, potScript(1), `SELECT count(*) FROM rowlock_bench.coin WHERE n > 0 AND pot_id > 1`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := pgbenchOn(program, dbtest.Empty(t))
			if err := tc.tables(r, t.Context()); err != nil {
				t.Fatal(err)
			}
			got, err := r.bare(tc.script)(t.Context())
			if err != nil || got.Figures[perSecond] <= 0 || got.Figures[errorCount] != 0 {
				t.Fatalf("%+v, %v", got, err)
			}
			if n, err := number(r.url, tc.wrong)(t.Context()); err != nil || n != 0 {
				t.Errorf("%d rows are not as the transactions leave them, %v", n, err)
			}
		})
	}
}
