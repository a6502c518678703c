package observe

import (
	"context"
	"testing"

	"github.com/lib/pq"
)

// configure changes a setting of the server. It tries again while pooled connections are of a server that died.
func (r *rig) configure(t *testing.T, statement string) {
	t.Helper()
	eventually(t, statement, fireWithin, func() bool {
		conn, err := r.other.Conn(t.Context())
		if err != nil {
			return false
		}
		defer func() { _ = conn.Close() }()
		if _, err = conn.ExecContext(t.Context(), statement); err == nil {
			_, err = conn.ExecContext(t.Context(), `SELECT pg_reload_conf()`)
		}
		return err == nil
	})
}

// number reads one number.
func (r *rig) number(t *testing.T, query string) int64 {
	t.Helper()
	list := r.numbers(t, query)
	if len(list) != 1 {
		t.Fatalf("%s: %v", query, list)
	}
	return list[0]
}

// numbers reads the numbers that a query finds.
func (r *rig) numbers(t *testing.T, query string) (list pq.Int64Array) {
	t.Helper()
	all := `SELECT coalesce(array_agg(n), '{}') FROM (` + query + `) AS found (n)`
	if err := r.other.QueryRowContext(t.Context(), all).Scan(&list); err != nil && t.Context().Err() == nil {
		t.Errorf("%s: %v", query, err)
	}
	return list
}

// hold runs statements, each in a transaction of its own that stays open until the returned function is called.
func (r *rig) hold(t *testing.T, statements ...string) (release func()) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	var ends []func() error
	for _, statement := range statements {
		tx, err := r.other.BeginTx(ctx, nil)
		if err == nil {
			ends = append(ends, tx.Rollback)
			_, err = tx.ExecContext(ctx, statement)
		}
		if err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	return func() {
		for _, end := range ends {
			if err := end(); err != nil {
				t.Error(err)
			}
		}
	}
}
