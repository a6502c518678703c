package fault

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jmoiron/sqlx"

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
	err = m.DB.Once(ctx, func(ctx context.Context, conn *sqlx.Conn) error {
		_, err := conn.ExecContext(ctx, fmt.Sprintf("KILL CONNECTION %d", id))
		return err //nolint:wrapcheck // Once classifies it
	})
	if err != nil {
		return 0, nil //nolint:nilerr // it has just ended by itself
	}
	return 1, nil
}

// Connections counts the user's connections, and those of them at work.
func (m *MariaDB) Connections(ctx context.Context, user string) (open, busy int, err error) {
	var row struct {
		Open int `db:"n"`
		Busy int `db:"busy"`
	}
	err = m.DB.GetContext(ctx, &row, `SELECT count(*) AS n, coalesce(sum(command <> 'Sleep'), 0) AS busy
		FROM information_schema.processlist WHERE user = ?`, user)
	return row.Open, row.Busy, err
}
