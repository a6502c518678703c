package bench

import (
	"errors"
	"maps"
	"strings"
	"testing"
)

func TestRedisIsLeftOutWhereItIsMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := new(runner).incr(1, 1)(t.Context())
	if !errors.Is(err, errLeftOut) || !strings.Contains(err.Error(), "redis-server") {
		t.Errorf("error %v, want one that names the package", err)
	}
}

func TestParseRedisBenchmark(t *testing.T) {
	t.Parallel()
	const names = `"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms",` +
		`"max_latency_ms"` + "\n"
	const line = `"INCR x","5301.95","5.762","0.184","3.367","17.471","33.055","255.103"` + "\n"
	got, err := parseRedisBenchmark(names + line)
	want := Figures{perSecond: 5301.95, p50: 3.367, p99: 33.055, maxLatency: 255.103}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	for _, output := range []string{"", names, strings.ReplaceAll(names, "rps", "rate") + names} {
		if got, err := parseRedisBenchmark(output); err == nil {
			t.Errorf("%q: %v, want an error", output, got)
		}
	}
}
