package config_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/platform/config"
)

func TestTable(t *testing.T) {
	t.Parallel()
	rows := map[string]config.Row{}
	var order []string
	for _, row := range config.Table(&service{}) {
		rows[row.Name] = row
		order = append(order, row.Name)
	}
	if order[0] != "DATABASE_URL" || order[len(order)-1] != "WORKER_PAUSE" {
		t.Errorf("the rows are not in the order of the fields: %v", order)
	}
	for _, want := range []config.Row{
		{Name: "LOCK_WAIT", Default: "3s", Help: "how long to wait"},
		{Name: "FINGERPRINT_SECRET", Help: "key of the fingerprint", Secret: true},
		{Name: "WORKER_PAUSE", Default: "1s", Help: "pause"},
	} {
		if rows[want.Name] != want {
			t.Errorf("row %+v, want %+v", rows[want.Name], want)
		}
	}
	if !rows["DATABASE_URL"].Required || !rows["DATABASE_URL"].Secret {
		t.Errorf("row %+v is not required and secret", rows["DATABASE_URL"])
	}
	if got := rows["MAX_BODY"].Default; got != "256 MiB" {
		t.Errorf("default of MAX_BODY is %q, want the one of Defaults", got)
	}
	if config.Table(nil) != nil {
		t.Error("Table(nil) is not nil")
	}
}

// The table of the design, section 2, is a contract; this holds the code to it.
func TestCommonHasTheDefaultsOfTheDesign(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"DATABASE_URL": "", "DB_POOLER": "none", "DB_MAX_OPEN_CONNS": "8",
		"DB_LOCK_TIMEOUT": "5s", "DB_STATEMENT_TIMEOUT": "8s", "REQUEST_TIMEOUT": "10s", "SHUTDOWN_TIMEOUT": "20s",
		"MIGRATE_ON_START": "true", "MIGRATE_DATABASE_URL": "", "HTTP_ADDR": ":8080", "ADMIN_ADDR": ":9090",
		"PPROF": "false", "MAX_BODY": "64KiB", "MAX_IN_FLIGHT": "1024", "SHUTDOWN_DELAY": "0s",
		"LOG_LEVEL": "info", "LOG_FORMAT": "json", "LOG_REQUESTS": "errors",
	}
	rows := config.Table(&config.Common{})
	for _, row := range rows {
		value, ok := want[row.Name]
		if !ok || row.Default != value {
			t.Errorf("%s has the default %q, the design says %q (named there: %t)", row.Name, row.Default, value, ok)
		}
	}
	if len(rows) != len(want) {
		t.Errorf("%d variables, the design has %d", len(rows), len(want))
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := config.Usage(&b, &service{}); err != nil {
		t.Fatalf("Usage: %v", err)
	}
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if len(lines) != len(config.Table(&service{})) {
		t.Errorf("%d lines, want one for each variable:\n%s", len(lines), b.String())
	}
	if fields := strings.Fields(lines[0]); fields[0] != "DATABASE_URL" || fields[1] != "(required)" {
		t.Errorf("first line %q", lines[0])
	}
	column := strings.Index(lines[0], "(required)")
	for _, line := range lines {
		if line[column-1] != ' ' {
			t.Errorf("not aligned: %q", line)
		}
	}
	if err := config.Usage(failing{}, &service{}); !errors.Is(err, errFailing) {
		t.Errorf("Usage on a broken writer: %v", err)
	}
	if err := config.Usage(&b, service{}); err == nil {
		t.Error("Usage of no pointer: no error")
	}
}

var errFailing = errors.New("broken writer")

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errFailing }

func TestBytes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]config.Bytes{
		"0": 0, "1": 1, "1000": 1000, "1000B": 1000, "64KiB": 64 << 10, "64kib": 64 << 10, " 256 MiB ": 256 << 20,
		"3 GiB": 3 << 30, "2TiB": 2 << 40, "9223372036854775807": math.MaxInt64, "8388607TiB": 8388607 << 40,
	} {
		var got config.Bytes
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%q is %d (%v), want %d", text, got, err, want)
			continue
		}
		var again config.Bytes
		if err := again.UnmarshalText([]byte(got.String())); err != nil || again != want {
			t.Errorf("%q is written %s and read back as %d (%v)", text, got, again, err)
		}
	}
	for _, text := range []string{
		"", "B", "KiB", "-1", "+1", "1.5MiB", "1e3", "64K", "64KB", "64 k", "0x10", "1 000", "1_000",
		"9223372036854775808", "8388608TiB", "18446744073709551616", "9007199254740992KiB", "٣",
	} {
		got := config.Bytes(7)
		if err := got.UnmarshalText([]byte(text)); err == nil || got != 7 {
			t.Errorf("%q is read as %d (%v), want an error and nothing changed", text, got, err)
		}
	}
	for size, want := range map[config.Bytes]string{
		0: "0B", 1: "1B", 1000: "1000B", 1024: "1KiB", 1536: "1536B", 1 << 20: "1MiB", 1 << 40: "1TiB",
	} {
		if got := size.String(); got != want {
			t.Errorf("%d is written %s, want %s", int64(size), got, want)
		}
	}
}
