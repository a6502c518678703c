package pgbench

import (
	"database/sql"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	_ "github.com/lib/pq"

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
	databaseURL := dbtest.Empty(t)
	db, err := sql.Open("postgres", databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.ExecContext(t.Context(), `CREATE TABLE counter AS SELECT 0::bigint AS value`); err != nil {
		t.Fatal(err)
	}
	got, err := Run(t.Context(), find(t), databaseURL, "UPDATE counter SET value = value + 1;\n", 100*time.Millisecond)
	if err != nil || got.TPS <= 0 || got.Failed != 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	var sum int64
	err = db.QueryRowContext(t.Context(), `SELECT value FROM counter`).Scan(&sum)
	if err != nil || sum == 0 {
		t.Errorf("the counter is %d, %v", sum, err)
	}
}

// The tables that are compared have one fillfactor: the migrations of counts say theirs last.
func TestFillFactor(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../../services/counts/internal/postgres/migrations/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	last := ""
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range regexp.MustCompile(`fillfactor\s*=\s*(\d+)`).FindAllStringSubmatch(string(text), -1) {
			last = found[1]
		}
	}
	if last != strconv.Itoa(FillFactor) {
		t.Errorf("the service's table has the fillfactor %q", last)
	}
}

func TestErrorsShowNoPassword(t *testing.T) {
	t.Parallel()

	_, err := Run(t.Context(), find(t), "postgres://app:geheim@127.0.0.1:1/none?sslmode=disable", "SELECT 1;", time.Second)
	if err == nil || strings.Contains(err.Error(), "geheim") || !strings.Contains(err.Error(), "127.0.0.1") {
		t.Errorf("no server: error %v, want one that names the address and not the password", err)
	}
}

func TestFind(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	beside := filepath.Join(dir, "pgbench")

	if err := os.WriteFile(beside, nil, 0o700); err != nil {
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
*--time=4*)
	printf 'number of transactions actually processed: 3\nlatency average = 1.0 ms\n'
	echo 'tps = 3 (without initial connection time)' ;;
*) echo 'number of transactions actually processed: 0' ;;
esac
`

	if err := os.WriteFile(binary, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}

	got, err := Run(t.Context(), binary, "postgres://127.0.0.1/none", "SELECT 1;", time.Second)
	if err != nil || got.TPS != 3 {
		t.Errorf("%+v, %v; want 3 tps", got, err)
	}

	log, err := os.ReadFile(binary + ".log")
	if err != nil || strings.Count(string(log), "--protocol=prepared --client=32 --jobs=2") != 3 {
		t.Errorf("%v; the runs were:\n%swant 1, 2 and 4 s", err, log)
	}
}

func TestParse(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		output string
		want   Result
	}{
		"version 15": {
			output: `pgbench (15.18 (Debian 15.18-0+deb12u1))
number of transactions actually processed: 181930
number of failed transactions: 2 (0.001%)
latency average = 1.758 ms
tps = 18198.345678 (without initial connection time)
`,
			want: Result{TPS: 18198.345678, Failed: 2},
		},
		"version 13": {
			output: `number of transactions actually processed: 2400
tps = 2390.100000 (including connections establishing)
tps = 2412.700000 (excluding connections establishing)
`,
			want: Result{TPS: 2412.7},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got, err := parse(test.output)
			if err != nil || got != test.want {
				t.Errorf("got %+v, %v; want %+v", got, err, test.want)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()

	for name, output := range map[string]string{
		"nothing":   "",
		"zero":      "number of transactions actually processed: 0\nnumber of failed transactions: 0 (NaN%)\n",
		"no rate":   "number of transactions actually processed: 10\nlatency average = 0.100 ms\n",
		"no number": "number of transactions actually processed: many\n",
	} {
		if got, err := parse(output); err == nil {
			t.Errorf("%s: %+v, want an error", name, got)
		}
	}
}
