package pgbench

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		output string
		want   Result
	}{
		"version 15": {
			output: `pgbench (15.18 (Debian 15.18-0+deb12u1))
transaction type: /tmp/rowlock-pgbench-1.sql
scaling factor: 1
query mode: prepared
number of clients: 32
number of threads: 2
maximum number of tries: 1
duration: 10 s
number of transactions actually processed: 181930
number of failed transactions: 2 (0.001%)
latency average = 1.758 ms
initial connection time = 60.123 ms
tps = 18198.345678 (without initial connection time)
`,
			want: Result{TPS: 18198.345678, Transactions: 181930, Failed: 2, Latency: 1758 * time.Microsecond},
		},
		"version 13": {
			output: `starting vacuum...end.
transaction type: /tmp/x.sql
scaling factor: 1
query mode: prepared
number of clients: 32
number of threads: 2
duration: 1 s
number of transactions actually processed: 2400
latency average = 13.250 ms
tps = 2390.100000 (including connections establishing)
tps = 2412.700000 (excluding connections establishing)
`,
			want: Result{TPS: 2412.7, Transactions: 2400, Latency: 13250 * time.Microsecond},
		},
		"by number": {
			output: "number of transactions actually processed: 10/10\nlatency average = 0.100 ms\n" +
				"tps = 9000 (without initial connection time)\n",
			want: Result{TPS: 9000, Transactions: 10, Latency: 100 * time.Microsecond},
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
		"nothing":    "",
		"zero":       "number of transactions actually processed: 0\nnumber of failed transactions: 0 (NaN%)\n",
		"no rate":    "number of transactions actually processed: 10\nlatency average = 0.100 ms\n",
		"no latency": "number of transactions actually processed: 10\ntps = 9000 (without initial connection time)\n",
		"no number":  "number of transactions actually processed: many\n",
	} {
		if got, err := parse(output); err == nil {
			t.Errorf("%s: %+v, want an error", name, got)
		}
	}
}

func TestEnvironmentHidesNothingAndShowsNothing(t *testing.T) {
	t.Parallel()

	tests := map[string][]string{
		"postgres://app:p%40ss@db.example:5433/counts?sslmode=disable&binary_parameters=yes": {
			"LC_ALL=C", "PGDATABASE=counts", "PGHOST=db.example", "PGPASSWORD=p@ss", "PGPORT=5433", "PGSSLMODE=disable",
			"PGUSER=app",
		},
		"postgres:///counts?host=/run/pg&port=5434&user=app": {
			"LC_ALL=C", "PGDATABASE=counts", "PGHOST=/run/pg", "PGPORT=5434", "PGUSER=app",
		},
	}
	for _, databaseURL := range slices.Sorted(maps.Keys(tests)) {
		got, err := environment(databaseURL)
		slices.Sort(got)

		if err != nil || !slices.Equal(got, tests[databaseURL]) {
			t.Errorf("%s: %v, %v; want %v", databaseURL, got, err, tests[databaseURL])
		}
	}

	if _, err := environment("postgres://app:secret@%zz/"); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("a bad URL: error %v, want one without the password", err)
	}
}
