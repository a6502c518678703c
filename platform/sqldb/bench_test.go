package sqldb_test

import (
	"context"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
)

const oneUpdate = `UPDATE counter SET n = n + $1 WHERE id = 'a'`

func increment(ctx context.Context, conn *sqlx.Conn) error {
	_, err := conn.ExecContext(ctx, oneUpdate, 1)
	return err
}

// BenchmarkOnce shows what a deadline costs: one that leaves room for the
// server's own timeouts is free, a nearer one costs goroutines and a timer.
func BenchmarkOnce(b *testing.B) {
	db := open(b, counterDatabase(b))
	for _, c := range []struct {
		name    string
		timeout time.Duration
	}{{"NoDeadline", 0}, {"FarDeadline", time.Hour}, {"NearDeadline", time.Second}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			ctx := b.Context()
			if c.timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, c.timeout*time.Duration(max(1, b.N/1000)))
				defer cancel()
			}
			for b.Loop() {
				if err := db.Once(ctx, increment); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkInTx is the price of a transaction around the same statement.
func BenchmarkInTx(b *testing.B) {
	db := open(b, counterDatabase(b))
	b.ReportAllocs()
	for b.Loop() {
		err := db.InTx(b.Context(), func(ctx context.Context, tx *sqlx.Tx) error {
			_, err := tx.ExecContext(ctx, oneUpdate, 1)
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}
