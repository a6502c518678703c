package config_test

import (
	"math"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/platform/config"
)

// The table of the design, section 2, is a contract: the names and defaults of Common, in this order.
func TestCommonHasTheDefaultsOfTheDesign(t *testing.T) {
	t.Parallel()
	const want = "DATABASE_URL (required) DB_POOLER none DB_CLUSTER none DB_MAX_OPEN_CONNS 8 DB_LOCK_TIMEOUT 5s " +
		"DB_STATEMENT_TIMEOUT 8s REQUEST_TIMEOUT 10s IDLE_TIMEOUT 10m " +
		"MAX_CONNECTION_AGE 30m SHUTDOWN_TIMEOUT 20s SHUTDOWN_DELAY 0s " +
		"MIGRATE_ON_START true MIGRATE_DATABASE_URL a MIGRATE_TIMEOUT 5m HTTP_ADDR :8080 ADMIN_ADDR :9090 PPROF false " +
		"MAX_BODY 64KiB MAX_IN_FLIGHT 1024 " +
		"AUTH off AUTH_ISSUER token: AUTH_KEYS_URL token: AUTH_AUDIENCE rowlock AUTH_CA_FILE token: " +
		"AUTH_TOKEN_FILE token: AUTH_POLICY token: " +
		"LOG_LEVEL info LOG_FORMAT json LOG_REQUESTS errors"
	var got []string
	for line := range strings.Lines(config.Usage(&config.Common{})) {
		got = append(got, strings.Fields(line)[:2]...)
	}
	if strings.Join(got, " ") != want {
		t.Errorf("Usage has\n%s\nthe design has\n%s", strings.Join(got, " "), want)
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	table := config.Usage(&service{})
	words := strings.Join(strings.Fields(table), " ")
	for _, want := range []string{
		"LOCK_WAIT 3s how", "FINGERPRINT_SECRET key of", "WORKER_PAUSE 1s pause", "MAX_BODY 256 MiB a",
	} {
		if !strings.Contains(words, want) {
			t.Errorf("Usage lacks %q:\n%s", want, table)
		}
	}
	column := strings.Index(table, "(required)")
	for line := range strings.Lines(table) {
		if line[column-1] != ' ' {
			t.Errorf("not aligned: %q", line)
		}
	}
}

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
