package observe

import (
	"context"
	"errors"
	"testing"
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
		_, err = conn.ExecContext(t.Context(), statement)
		if err == nil {
			_, err = conn.ExecContext(t.Context(), `SELECT pg_reload_conf()`)
		}
		return err == nil
	})
}

// number reads one number.
func (r *rig) number(t *testing.T, query string) int {
	t.Helper()
	list := r.numbers(t, query)
	if len(list) != 1 {
		t.Fatalf("%s: %v", query, list)
	}
	return list[0]
}

// numbers reads the numbers that a query finds.
func (r *rig) numbers(t *testing.T, query string) (list []int) {
	t.Helper()
	tx, err := r.other.BeginTx(t.Context(), nil)
	if err != nil {
		t.Error(err)
		return nil
	}
	defer func() { _ = tx.Rollback() }()
	rows, err := tx.QueryContext(t.Context(), query)
	if err != nil {
		t.Errorf("%s: %v", query, err)
		return nil
	}
	defer func() { _ = rows.Close() }()
	for n := 0; rows.Next() && err == nil; list = append(list, n) {
		err = rows.Scan(&n)
	}
	if err = errors.Join(err, rows.Err()); err != nil {
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
