package sqldb

import (
	"slices"
	"strings"
	"testing"
)

// TestAdvice: each setting by which the server may lose confirmed changes is named when it is off.
func TestAdvice(t *testing.T) {
	t.Parallel()
	safe := serverSettings{
		Fsync: "on", SynchronousCommit: "on", FullPageWrites: "on", Superuser: "off", Isolation: "read committed",
		ClientCheck: "200ms", StatementTimeout: "8s",
	}
	if advice := safe.advice(); len(advice) != 0 {
		t.Errorf("advice on safe settings: %q", advice)
	}
	unsafe := serverSettings{Fsync: "off", SynchronousCommit: "off", FullPageWrites: "off", ClientCheck: "0"}
	advice := unsafe.advice()
	for _, name := range []string{"fsync=off", "synchronous_commit=off", "full_page_writes=off"} {
		if !slices.ContainsFunc(advice, func(line string) bool { return strings.Contains(line, "runs with "+name) }) {
			t.Errorf("%s is not named in %q", name, advice)
		}
	}
}
