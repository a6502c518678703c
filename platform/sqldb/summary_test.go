package sqldb

import (
	"strings"
	"testing"
)

func TestSummary(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ query, want string }{
		{"SELECT id FROM status FOR UPDATE", "SELECT status"},
		{"SELECT a FROM x.y AS p CROSS JOIN LATERAL (SELECT b FROM x.z) AS c WHERE p.id = $1", "SELECT x.y"},
		{"UPDATE counts.count_values SET current_value = current_value + $2", "UPDATE counts.count_values"},
		{"INSERT INTO a.b (x) VALUES ($1) ON CONFLICT (x) DO UPDATE SET x = excluded.x", "INSERT a.b"},
		{"WITH l AS (SELECT id FROM a.b ORDER BY id FOR UPDATE OF v) UPDATE a.b SET n = 1 FROM l", "UPDATE a.b"},
		{"WITH g AS (DELETE FROM e.e RETURNING id)\nINSERT INTO e.e (id) SELECT id FROM g", "DELETE e.e INSERT e.e"},
		{"WITH h AS (SELECT 1 FROM unnest($1::text[]) u) SELECT h.n FROM h", "SELECT h"},
		{"WITH q AS (SELECT extract(epoch FROM now()) FROM held JOIN i.l ON true) SELECT n FROM i.l", "SELECT i.l"},
		{"SET LOCAL lock_timeout = 50;", "SET"},
		{"SELECT count(*) FROM pg_catalog.pg_class", "SELECT pg_catalog.pg_class"},
		{"SELECT 'it''s' FROM 'x'", "SELECT"},
		{"", "statement"},
		{"/* SELECT my_id */ SELECT a FROM b", "SELECT my_id"},
		{"/* SELECT a FROM b", "SELECT b"},
		{"SELECT a FROM x.y WHERE a IS DISTINCT FROM $1", "SELECT x.y"},
		{"SELECT 1 WHERE $1 IS DISTINCT FROM $2", "SELECT"},
	} {
		if got := summarize(strings.Fields(c.query)); got != c.want {
			t.Errorf("%q: %q, want %q", c.query, got, c.want)
		}
	}
}
