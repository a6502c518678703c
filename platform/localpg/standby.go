package localpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// StandbyName is the application_name of a standby on its primary, for synchronous_standby_names.
const StandbyName = "rowlock_standby"

// StartStandby copies the running server primary into a new cluster and starts a server there that follows the primary
// and answers reads. Options, folder and end are as for [Start]; programs and password are the primary's. It fails if
// o.Dir holds a cluster and o.Fresh is not set, or if the programs lack pg_basebackup, as downloaded ones do.
func StartStandby(ctx context.Context, primary *Server, o Options) (*Server, error) {
	return startWith(ctx, o, func(s *Server, ctx context.Context) error { return s.copyOf(ctx, primary) })
}

// copyOf creates the cluster as a copy of the primary's, which follows it.
func (s *Server) copyOf(ctx context.Context, primary *Server) error {
	if clusterMajor(s.dir) != 0 {
		return fmt.Errorf("%s already holds a PostgreSQL cluster, but a standby must be a new copy of its primary", s.dir)
	}
	s.opts.sayf("Copying the PostgreSQL cluster in %s to %s", primary.dir, s.dir)
	s.bin, s.password = primary.bin, primary.password

	// The connection string names a file with the password: every user can read a command line.
	file := upstreamFile(s.dir)
	s.upstream = fmt.Sprintf("host=127.0.0.1 port=%d user=%s dbname=postgres passfile='%s' application_name=%s",
		primary.Port(), Superuser, strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(file), StandbyName)
	err := errors.Join(s.user.WriteFile(passwordFile(s.dir), s.password+"\n"),
		s.user.WriteFile(file, "127.0.0.1:*:*:"+Superuser+":"+s.password+"\n"))
	if err != nil {
		return err
	}

	return s.build(func(unfinished string) error {
		args := append(s.noSync(), "-D", unfinished, "-X", "stream", "-c", "fast", "-d", s.upstream)
		if err := s.run(ctx, "pg_basebackup", args...); err != nil {
			return err
		}
		return s.user.WriteFile(filepath.Join(unfinished, "standby.signal"), "")
	})
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
// connections. It replaces the cluster by a copy of primary's. Rejoin fails if the server runs, or if the programs lack
// pg_basebackup, as downloaded ones do. No other method may be called meanwhile.
func (s *Server) Rejoin(ctx context.Context, primary *Server) error {
	select {
	case <-s.Done():
	default:
		return errors.New("the server still runs: only a server that has ended can rejoin")
	}

	if err := os.RemoveAll(dataDir(s.dir)); err != nil {
		return fmt.Errorf("remove the old cluster: %w", err)
	}
	if err := s.copyOf(ctx, primary); err != nil {
		return err
	}
	return s.Restart(ctx)
}
