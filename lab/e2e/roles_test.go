//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strings"
)

// limit gives each runtime role the CONNECTION LIMIT that the chart's notes name. The
// rest of the story, in which services scale and roll out under load, has to do with it.
func (s *story) limit(t *T, notes string) {
	t.Helper()
	_, line, _ := strings.Cut(notes, "runtime role that fits: ")
	line, _, _ = strings.Cut(line, "\n")
	words := strings.Fields(line)
	if len(words) != 2*len(s.rows) {
		t.Fatalf("the notes name the limits %q", line)
	}
	var alter strings.Builder
	for i := 0; i < len(words); i += 2 {
		_, _ = fmt.Fprintf(&alter, "ALTER ROLE %s CONNECTION LIMIT %s;", words[i], words[i+1])
	}
	if _, err := s.query(t.Context(), alter.String()); err != nil {
		t.Fatal(err)
	}
}

// roles demands that all services are connected as their runtime roles and by TLS. (lab/internal/local tests what the
// roles may do, and lab/chart that no replica has an owner's secret.)
func (s *story) roles(t *T) {
	out, err := s.query(t.Context(), `SELECT string_agg(DISTINCT usename, ' ' ORDER BY usename), bool_and(ssl)
		FROM pg_stat_activity JOIN pg_stat_ssl USING (pid) WHERE client_addr IS NOT NULL`)
	want := strings.Join(s.inOrder(), " ") + "|t"
	if err != nil || strings.TrimSpace(out) != want {
		t.Errorf("connected, by TLS: %s, %v, want %s", out, err, want)
	}
	owned, err := s.query(t.Context(), `SELECT string_agg(DISTINCT tableowner, ' ' ORDER BY tableowner) FROM pg_tables
		WHERE schemaname NOT IN ('pg_catalog', 'information_schema')`)
	owners := strings.Join(slices.Sorted(slices.Values(s.services)), "_owner ") + "_owner"
	if err != nil || strings.TrimSpace(owned) != owners {
		t.Errorf("the tables' owners: %s, %v", owned, err)
	}
}
