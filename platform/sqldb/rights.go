package sqldb

import (
	"context"
	"errors"
	"strings"
)

// CheckRights returns an error with the GRANTs that the pool's role lacks. A right is written as in GRANT, with the
// table's schema where there is one: "SELECT, INSERT ON counts.slots". PostgreSQL also has "USAGE ON SCHEMA counts" and
// "TEMPORARY ON DATABASE", MySQL only SELECT, INSERT and UPDATE.
func (db *DB) CheckRights(ctx context.Context, rights []string) error {
	var lacking []string
	for _, right := range rights {
		privileges, object, _ := strings.Cut(right, " ON ")

		var refused []string
		for privilege := range strings.SplitSeq(privileges, ", ") {
			var granted bool
			if err := db.GetContext(ctx, &granted, db.engine.grantedSQL(), object, privilege); err != nil {
				return err
			}
			if !granted {
				refused = append(refused, privilege)
			}
		}

		if len(refused) > 0 {
			lacking = append(lacking, "GRANT "+strings.Join(refused, ", ")+" ON "+object)
		}
	}

	if len(lacking) > 0 {
		return errors.New("its role lacks rights: " + strings.Join(lacking, "; "))
	}
	return nil
}

// grantedSQL finds a table by its name: a cast to regclass needs USAGE on the schema.
func (postgresEngine) grantedSQL() string {
	return `SELECT CASE split_part($1, ' ', 1)
		WHEN 'DATABASE' THEN has_database_privilege(current_database(), $2)
		WHEN 'SCHEMA' THEN has_schema_privilege(split_part($1, ' ', 2), $2)
		ELSE EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
			WHERE n.nspname || '.' || c.relname = $1 AND has_table_privilege(c.oid, $2)) END`
}

// grantedSQL asks for the rights on the columns, which include those on the table, the database and the server, and
// those of roles.
func (mysqlEngine) grantedSQL() string {
	return `SELECT EXISTS (SELECT 1 FROM information_schema.columns
		WHERE table_schema = database() AND table_name = ? AND find_in_set(?, privileges))`
}
