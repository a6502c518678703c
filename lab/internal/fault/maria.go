package fault

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/platform/localmaria"
	"github.com/rowlock/rowlock/platform/sqldb"
)

// MariaDB holds the server of a service that is not on PostgreSQL. No proxy stands
// between it and the replicas.
type MariaDB struct {
	Server *localmaria.Server
	DB     *sqldb.DB
}

// terminate ends one of the user's connections, one at work if there is any, and
// returns how many it ended.
func (m *MariaDB) terminate(ctx context.Context, user string) (int, error) {
	var id int64
	err := m.DB.GetContext(ctx, &id, `SELECT id FROM information_schema.processlist WHERE user = ?
		ORDER BY command = 'Sleep', rand() LIMIT 1`, user)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if local.Execute(ctx, m.DB, fmt.Sprintf("KILL CONNECTION %d", id)) != nil {
		return 0, nil //nolint:nilerr // it has just ended by itself
	}
	return 1, nil
}
