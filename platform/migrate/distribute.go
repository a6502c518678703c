package migrate

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"github.com/rowlock/rowlock/platform/sqldb"
)

// distributedMark begins the comment on the history of a distributed schema; the number of steps follows.
const distributedMark = "rowlock: distributed in steps: "

func (s Source) onCitus() bool { return s.Cluster == sqldb.ClusterCitus }

// distribution returns all steps. The first makes the history readable on every node.
func (s Source) distribution() []string {
	return append([]string{
		fmt.Sprintf("SELECT create_reference_table('%s.%s')", s.historySchema(), historyTable),
	}, s.Distribution...)
}

// undistributed reports whether the schema lacks steps of the distribution.
func (m *migrator) undistributed(ctx context.Context) (bool, error) {
	if m.src.engine() != sqldb.PostgreSQL {
		return false, nil
	}
	steps, err := m.distributed(ctx)
	return m.src.onCitus() && steps < len(m.src.distribution()), err
}

// distributed returns how many steps of the distribution the schema has, and ErrCluster if that or the server does not
// fit the source's cluster.
func (m *migrator) distributed(ctx context.Context) (steps int, err error) {
	var comment string
	var citus bool
	conn, err := m.db.Conn(ctx)
	if err != nil {
		return 0, databaseError("connect", err)
	}
	defer func() { _ = conn.Close() }() // back to the pool

	err = conn.QueryRowContext(ctx, "SELECT coalesce(obj_description(to_regclass($1), 'pg_class'), ''), "+
		"EXISTS (SELECT FROM pg_extension WHERE extname = 'citus')", m.history).Scan(&comment, &citus)
	if err != nil {
		return 0, databaseError("read the comment on "+m.history, err)
	}

	count, marked := strings.CutPrefix(comment, distributedMark)
	switch {
	case marked && !m.src.onCitus():
		return 0, fmt.Errorf("schema %s: %w: Citus distributes the schema; set DB_CLUSTER=citus", m.src.Schema, ErrCluster)
	case !marked && citus && !m.src.onCitus():
		return 0, m.refuseByHand(ctx, conn)
	case !citus && m.src.onCitus():
		return 0, fmt.Errorf("schema %s: %w: the database is no coordinator: it lacks the extension citus",
			m.src.Schema, ErrCluster)
	case !marked:
		return 0, nil
	}

	steps, err = strconv.Atoi(count)
	if err != nil {
		return 0, fmt.Errorf("the comment on %s: %w", m.history, err)
	}
	return steps, nil
}

// refuseByHand returns ErrCluster if tables of the schema were distributed by hand. It reads the extension's catalog,
// so the database must have the extension.
func (m *migrator) refuseByHand(ctx context.Context, conn *sql.Conn) error {
	var byHand bool
	err := conn.QueryRowContext(ctx, "SELECT EXISTS (SELECT FROM pg_dist_partition p JOIN pg_class c "+
		"ON c.oid = p.logicalrelid WHERE c.relnamespace = to_regnamespace($1))", m.src.Schema).Scan(&byHand)
	if err != nil {
		return databaseError("read Citus' tables", err)
	}
	if byHand {
		return fmt.Errorf("schema %s: %w: Citus has tables of the schema that no migration distributed",
			m.src.Schema, ErrCluster)
	}
	return nil
}

// distribute runs the steps of the distribution that the schema lacks.
func (m *migrator) distribute(ctx context.Context, log *slog.Logger) error {
	if !m.src.onCitus() {
		return nil
	}
	done, err := m.distributed(ctx)
	if err != nil {
		return err
	}

	for n, step := range m.src.distribution() {
		if n < done {
			continue
		}
		if err := m.runStep(ctx, step, n+1); err != nil {
			return databaseError(fmt.Sprintf("distribute schema %s, step %d", m.src.Schema, n+1), err)
		}
		log.InfoContext(ctx, "distribution step run", slog.String("schema", m.src.Schema), slog.Int("step", n+1))
	}
	return nil
}

// runStep runs a step and records it.
func (m *migrator) runStep(ctx context.Context, step string, number int) error {
	tx, err := m.db.BeginTx(ctx, nil)
	if err != nil {
		return err //nolint:wrapcheck // the caller wraps it
	}
	defer func() { _ = tx.Rollback() }() // no effect after the commit

	if _, err := tx.ExecContext(ctx, step); err != nil {
		return err //nolint:wrapcheck // as above
	}
	comment := fmt.Sprintf("COMMENT ON TABLE %s IS '%s%d'", m.history, distributedMark, number)
	if _, err := tx.ExecContext(ctx, comment); err != nil {
		return err //nolint:wrapcheck // as above
	}
	return tx.Commit() //nolint:wrapcheck // as above
}
