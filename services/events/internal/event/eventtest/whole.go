package eventtest

import (
	"context"
	"testing"
)

// Database reads from a store's database.
type Database interface {
	GetContext(ctx context.Context, dest any, query string, args ...any) error
}

// WantWhole fails the test unless the ids are 1 to n, each once, and status holds n, which it returns. prefix is before
// the names of the tables.
func WantWhole(t *testing.T, db Database, prefix string) (n int64) {
	t.Helper()
	var got struct{ Status, Events, Different, Highest, Lowest int64 }
	query := `SELECT (SELECT id FROM ` + prefix + `status) AS status, count(*) AS events,
		count(DISTINCT id) AS different, coalesce(max(id), 0) AS highest, coalesce(min(id), 1) AS lowest
		FROM ` + prefix + `events`
	if err := db.GetContext(t.Context(), &got, query); err != nil {
		t.Fatal(err)
	}
	n = got.Status
	if got.Events != n || got.Different != n || got.Highest != n || got.Lowest != 1 {
		t.Errorf("not gapless: %+v", got)
	}
	return n
}
