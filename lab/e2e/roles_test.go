//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"

	core "k8s.io/api/core/v1"
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

// as runs a statement as the role of a secret, over TCP and TLS.
func as(ctx context.Context, secret *core.Secret, statement string) error {
	_, err := kubectl(ctx, "exec", "postgres-0", "--", "env", "PGPASSWORD="+string(secret.Data["password"]),
		"PGSSLROOTCERT=/etc/postgres-tls/tls.crt", "PGHOSTADDR=127.0.0.1", "psql", "--command="+statement,
		"host=postgres sslmode=verify-full dbname=rowlock user="+string(secret.Data["username"]))
	return err
}

// roles demands that a service's runtime role reads its own tables and no other's, that
// it cannot change a table, which its owner can, nor make one (iidy: a temporary one), and
// that all services are connected as their runtime roles, by TLS.
func (s *story) roles(t *T) {
	for _, mine := range s.rows {
		secret := fetch[core.Secret](t, "secret", "rowlock-"+mine.Name+"-db")
		owner := fetch[core.Secret](t, "secret", "rowlock-"+mine.Name+"-db-owner")
		for _, other := range s.rows {
			err := as(t.Context(), secret, "SELECT count(*) FROM "+other.Tables[0])
			switch {
			case mine.Name == other.Name && err != nil:
				t.Errorf("%s cannot read its own table: %v", mine.Name, err)
			case mine.Name != other.Name && (err == nil || !strings.Contains(err.Error(), "permission denied for schema")):
				t.Errorf("%s reads %s: %v", mine.Name, other.Tables[0], err)
			}
		}
		err := as(t.Context(), secret, "CREATE TEMPORARY TABLE mine (n int)")
		if may := mine.Name == "iidy"; may != (err == nil) { // for its large batches
			t.Errorf("%s makes a temporary table: %v, want %t", mine.Name, err, may)
		}
		for statement, refusal := range map[string]string{
			"COMMENT ON TABLE " + mine.Tables[0] + " IS 'mine'": "must be owner of table",
			"CREATE TABLE " + mine.Name + ".mine (n int)":       "permission denied for schema",
		} {
			if err := as(t.Context(), secret, statement); err == nil || !strings.Contains(err.Error(), refusal) {
				t.Errorf("%s may %s: %v", mine.Name, statement, err)
			}
			if err := as(t.Context(), owner, "BEGIN; "+statement+"; ROLLBACK"); err != nil {
				t.Errorf("the owner of %s: %v", mine.Name, err)
			}
		}
	}
	out, err := s.query(t.Context(), `SELECT string_agg(DISTINCT usename, ' ' ORDER BY usename), bool_and(ssl)
		FROM pg_stat_activity JOIN pg_stat_ssl USING (pid) WHERE client_addr IS NOT NULL`)
	want := strings.Join(slices.Sorted(slices.Values(s.services)), " ") + "|t"
	if err != nil || strings.TrimSpace(out) != want {
		t.Errorf("connected, by TLS: %s, %v, want %s", out, err, want)
	}
}
