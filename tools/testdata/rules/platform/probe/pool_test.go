package probe

import (
	"context"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
)

func TestPool(t *testing.T) {
	var db *sqlx.DB
	_, _ = db.ExecContext(context.Background(), "") // want forbidigo "InTx or Once"
	_ = db.QueryRowxContext(context.Background(), "")
	_ = db.GetContext(context.Background(), nil, "")
	time.Sleep(0)
}
