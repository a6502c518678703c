package postgres

import (
	"context"
	"fmt"

	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/sqldb"
)

// Check returns an error that names the tables on which the role lacks a right, because every change would be refused.
func Check(ctx context.Context, db *sqldb.DB) error {
	const query = `SELECT coalesce(string_agg(name, ', '), '')
		FROM unnest($1::text[]) AS name
		WHERE NOT (has_table_privilege(name, 'SELECT') AND has_table_privilege(name, 'INSERT')
			AND has_table_privilege(name, 'UPDATE') AND has_table_privilege(name, 'DELETE'))`
	var refused string
	tables := pq.StringArray{"counts.count_values", "counts.idempotency_keys", "counts.journal"}
	if db.Cluster() == sqldb.ClusterCitus {
		tables = append(tables, "counts.slots", "counts.item_keys")
	}
	if err := db.GetContext(ctx, &refused, query, tables); err != nil {
		return err
	}
	if refused != "" {
		return fmt.Errorf("the role of DATABASE_URL needs SELECT, INSERT, UPDATE and DELETE on %s", refused)
	}
	return nil
}
