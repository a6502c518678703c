package idempotency_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/platform/idempotency"
	"github.com/rowlock/rowlock/platform/problem"
)

func TestParseKey(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", 255)
	for header, want := range map[string]string{
		"abc": "abc", `"abc"`: "abc", "a b": "a b", `a"b`: `a"b`, `"a\"b\\"`: `a"b\`, "a\\b": "a\\b",
		long: long, `"` + long + `"`: long, "~!": "~!",
		"": "", `""`: "", long + "k": "", `"` + long + `k"`: "", `"`: "", `"abc`: "", `"a"b"`: "", `"a\x"`: "",
		`"a\`: "", `"a";p=1`: "",
		"a\tb": "", "a\x00": "", "a\x7f": "", "ключ": "", "a\xff": "",
	} {
		key, err := idempotency.ParseKey(header)
		if key != want || (err == nil) != (want != "") {
			t.Errorf("%.40q: %q, %v, want %q", header, key, err, want)
		}
		if p, ok := errors.AsType[*problem.Error](err); err != nil && (!ok || p.Kind() != problem.InvalidField ||
			p.Field() != "Idempotency-Key" || !strings.HasPrefix(p.Detail(), "Idempotency-Key ")) {
			t.Errorf("%.40q: the error is %v", header, err)
		}
	}
}
