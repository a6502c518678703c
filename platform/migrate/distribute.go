package migrate

import (
	"context"
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
	var citus, byHand bool
	err = m.ask(ctx, "SELECT coalesce(obj_description(to_regclass($1), 'pg_class'), ''), "+
		"EXISTS (SELECT FROM pg_extension WHERE extname = 'citus')", m.history).Scan(&comment, &citus)
	count, marked := strings.CutPrefix(comment, distributedMark)
	if err == nil && citus && !marked && !m.src.onCitus() { // pg_dist_partition is the extension's
		err = m.ask(ctx, "SELECT EXISTS (SELECT FROM pg_dist_partition p JOIN pg_class c "+
			"ON c.oid = p.logicalrelid WHERE c.relnamespace = to_regnamespace($1))", m.src.Schema).Scan(&byHand)
	}

	mismatch := ""
	switch {
	case err != nil:
		return 0, databaseError("read how "+m.history+" is distributed", err)
	case marked && !m.src.onCitus():
		mismatch = "Citus distributes the schema; set DB_CLUSTER=citus"
	case byHand:
		mismatch = "Citus has tables of the schema that no migration distributed"
	case !citus && m.src.onCitus():
		mismatch = "the database is no coordinator: it lacks the extension citus"
	}
	if mismatch != "" {
		return 0, fmt.Errorf("schema %s: %w: %s", m.src.Schema, ErrCluster, mismatch)
	}
	if !marked {
		return 0, nil
	}

	if steps, err = strconv.Atoi(count); err != nil {
		return 0, fmt.Errorf("the comment on %s: %w", m.history, err)
	}
	return steps, nil
}

// distribute runs the steps of the distribution that the schema lacks, and records each in its transaction.
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
		comment := fmt.Sprintf("COMMENT ON TABLE %s IS '%s%d'", m.history, distributedMark, n+1)
		if err := m.inTx(ctx, step, comment); err != nil {
			return databaseError(fmt.Sprintf("distribute schema %s, step %d", m.src.Schema, n+1), err)
		}
		log.InfoContext(ctx, "distribution step run", slog.String("schema", m.src.Schema), slog.Int("step", n+1))
	}
	return nil
}
