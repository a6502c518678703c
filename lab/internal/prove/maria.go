package prove

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/rowlock/rowlock/platform/localmaria"
	"github.com/rowlock/rowlock/platform/sqldb"
)

// EventsOnMariaDB is the name of the column of events on their second engine.
const EventsOnMariaDB = "events-mariadb"

// maria is a column's server when it is not PostgreSQL. Nothing stands between it and
// the replicas, so it takes part in the windows that need nothing there.
type maria struct {
	server *localmaria.Server
	reader *sqldb.DB
	admin  *sql.DB
}

func newMaria(ctx context.Context, server *localmaria.Server, database string) (*maria, error) {
	reader, err := sqldb.Open(ctx, sqldb.Settings{URL: server.URL(database), Engines: []sqldb.Engine{sqldb.MySQL}},
		slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return nil, err
	}
	connector, err := sqldb.Connector(server.URL(database))
	if err != nil {
		return nil, errors.Join(err, reader.Close())
	}
	return &maria{server, reader, sql.OpenDB(connector)}, nil
}

func (m *maria) close() error { return errors.Join(m.reader.Close(), m.admin.Close()) }

// takesPart tells whether a window is a column's.
func (w Window) takesPart(c *column) bool {
	if c.maria == nil {
		return !w.leftOut(c)
	}
	return slices.Contains([]string{windowNone, windowKill, windowTerm, windowBackends, windowRestart}, w.Name)
}

// terminate ends one of the user's connections, one at work if there is any.
func (m *maria) terminate(ctx context.Context, user string) (n int, err error) {
	conn, err := m.admin.Conn(ctx)
	if err != nil {
		return 0, fmt.Errorf("connect to MariaDB: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	var id int64
	err = conn.QueryRowContext(ctx, `SELECT id FROM information_schema.processlist WHERE user = '`+user+`'
		ORDER BY command = 'Sleep', rand() LIMIT 1`).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("look for a connection: %w", err)
	}
	if _, err := conn.ExecContext(ctx, fmt.Sprintf("KILL CONNECTION %d", id)); err != nil {
		return 0, nil // it has just ended by itself
	}
	return 1, nil
}

// restart kills the server and starts it again.
func (m *maria) restart(ctx context.Context) error {
	if err := m.server.Kill(); err != nil {
		return err
	}
	return m.server.Restart(ctx)
}

// open counts the user's connections, and those at work.
func (m *maria) open(ctx context.Context, user string) (all, busy int, err error) {
	var row struct {
		All  int `db:"n"`
		Busy int `db:"busy"`
	}
	err = m.reader.GetContext(ctx, &row, `SELECT count(*) AS n, coalesce(sum(command <> 'Sleep'), 0) AS busy
		FROM information_schema.processlist WHERE user = '`+user+`'`)
	return row.All, row.Busy, err
}
