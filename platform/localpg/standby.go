package localpg

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lib/pq"
)

// StandbyName is the application_name of a standby on its primary, for synchronous_standby_names.
const StandbyName = "rowlock_standby"

// StartStandby copies the running server primary into a new cluster and starts a server there that follows the primary
// and answers reads. Options, folder and end are as for [Start]; programs and password are the primary's. It fails if
// o.Dir holds a cluster and o.Fresh is not set, or if the programs lack pg_basebackup, as downloaded ones do.
func StartStandby(ctx context.Context, primary *Server, o Options) (*Server, error) {
	return startWith(ctx, o, func(s *Server, ctx context.Context) error { return s.copyOf(ctx, primary) })
}

// copyOf creates the cluster as a copy of the primary's.
func (s *Server) copyOf(ctx context.Context, primary *Server) error {
	if clusterMajor(s.dir) != 0 {
		return fmt.Errorf("%s already holds a PostgreSQL cluster, but a standby must be a new copy of its primary", s.dir)
	}
	s.opts.sayf("Copying the PostgreSQL cluster in %s to %s", primary.dir, s.dir)
	s.bin, s.password = primary.bin, primary.password
	err := errors.Join(s.user.WriteFile(passwordFile(s.dir), s.password+"\n"), s.follow(primary))
	if err != nil {
		return err
	}
	return s.build(func(unfinished string) error {
		args := append(s.noSync(), "-D", unfinished, "-X", "stream", "-c", "fast", "-d", s.upstream)
		if err := s.run(ctx, "pg_basebackup", args...); err != nil {
			return err
		}
		return s.markStandby(unfinished)
	})
}

// follow sets the connection string for the primary, which names a file with the password.
func (s *Server) follow(primary *Server) error {
	file := upstreamFile(s.dir)
	if err := s.user.WriteFile(file, "127.0.0.1:*:*:"+Superuser+":"+primary.password+"\n"); err != nil {
		return err
	}
	s.upstream = fmt.Sprintf("host=127.0.0.1 port=%d user=%s dbname=postgres passfile='%s' application_name=%s",
		primary.Port(), Superuser, quoted(file), StandbyName)
	return nil
}

// markStandby makes the next start of the cluster start a standby.
func (s *Server) markStandby(cluster string) error {
	return s.user.WriteFile(filepath.Join(cluster, "standby.signal"), "")
}

// Promote makes a standby a primary and returns when it accepts writes. The new primary waits for standbys only if its
// synchronous_standby_names says so.
func (s *Server) Promote(ctx context.Context) error {
	return s.run(ctx, "pg_ctl", "promote", "-D", dataDir(s.dir))
}

// Crash ends the server with SIGKILL and returns when the last of its processes has ended. Restart recovers from the
// log; Rejoin makes the server a standby of the one that was promoted in its place.
func (s *Server) Crash(ctx context.Context) error {
	if err := s.Server.Crash(); err != nil {
		return err
	}
	return s.locks.renew(ctx, s.dir)
}

// Rejoin makes a server that has ended a standby of primary, its former standby, and returns when it accepts
// connections. pg_rewind undoes what primary does not have. Both servers need the settings wal_log_hints=on,
// full_page_writes, and a wal_keep_size that covers the log since before the promotion. Rejoin fails if the server
// runs, or if the programs lack pg_rewind, as downloaded ones do. No other method may be called meanwhile.
func (s *Server) Rejoin(ctx context.Context, primary *Server) error {
	select {
	case <-s.Done():
	default:
		return errors.New("the server still runs: only a server that has ended can rejoin")
	}

	// pg_rewind reads the timeline from the last checkpoint, and a promotion makes none.
	if err := errors.Join(primary.checkpoint(ctx), s.follow(primary)); err != nil {
		return err
	}

	if err := s.keepSettings(); err != nil {
		return err
	}

	args := append(s.noSync(), "-D", dataDir(s.dir), "--source-server="+s.upstream)
	if err := s.run(ctx, "pg_rewind", args...); err != nil {
		return err
	}

	if err := s.markStandby(dataDir(s.dir)); err != nil {
		return err
	}
	return s.Restart(ctx)
}

// keepSettings writes the settings of the command line into postgresql.conf: pg_rewind begins with a recovery, which
// would otherwise undo wal_log_hints, and remove the log that wal_keep_size keeps.
func (s *Server) keepSettings() error {
	path := filepath.Join(dataDir(s.dir), "postgresql.conf")
	var conf strings.Builder
	conf.WriteString(readFile(path))
	for _, name := range slices.Sorted(maps.Keys(s.opts.Settings)) {
		fmt.Fprintf(&conf, "%s = '%s'\n", name, quoted(s.opts.Settings[name]))
	}
	return s.user.WriteFile(path, conf.String())
}

// quoted escapes a value inside quotes, for a connection string or postgresql.conf.
func quoted(value string) string { return strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(value) }

// checkpoint makes an immediate checkpoint.
func (s *Server) checkpoint(ctx context.Context) (err error) {
	connector, err := pq.NewConnector(s.URL("postgres"))
	if err != nil {
		return fmt.Errorf("connect to the new primary: %w", err)
	}
	db := sql.OpenDB(connector)
	defer func() { err = errors.Join(err, db.Close()) }()

	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connect to the new primary: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()

	if _, err := conn.ExecContext(ctx, `CHECKPOINT`); err != nil {
		return fmt.Errorf("checkpoint of the new primary: %w", err)
	}
	return nil
}
