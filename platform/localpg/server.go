// Package localpg finds or downloads a PostgreSQL server and runs it privately: a separate cluster in one
// folder, on a free port of 127.0.0.1, with a random password and PostgreSQL's defaults except
// max_connections=400. `rowlock up`, the benchmark and the tests use it, so that none of them needs
// Docker, root, or a prepared server.
//
// Because PostgreSQL refuses root, root's server runs as the user postgres or the user nobody. A server never
// outlives the process that started it: package guard stops it if that process is killed. If guard and
// process were killed together, the next Start in the same folder stops the remaining server. Unix only.
package localpg

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/rowlock/rowlock/platform/localpg/guard"
)

// Server is a PostgreSQL server that belongs to this process. Its Kill ends the server immediately, like
// a crash: the next start recovers from the log, and loses nothing that was committed with
// synchronous_commit.
type Server struct {
	*guard.Server

	opts     Options
	dir      string
	bin      installation
	user     *guard.User
	password string
	locks    *locks
	upstream string // a standby's connection string for its primary; "" if the server never was a standby
}

// The server's signals, see "Shutting Down the Server" in PostgreSQL's manual.
const (
	fastShutdown      = syscall.SIGINT  // roll back, disconnect, checkpoint, end
	immediateShutdown = syscall.SIGQUIT // end without a checkpoint; the next start recovers from the log
)

// guardGrace is the time that the guard gives the server to shut down in order before SIGKILL.
const guardGrace = 20 * time.Second

// Start creates the cluster in o.Dir unless it exists and starts its server. It returns when the
// server accepts connections, or with an error when ctx ends, after two minutes at the latest. It
// returns ErrInUse if another process runs a server in this folder.
func Start(ctx context.Context, o Options) (*Server, error) {
	return startWith(ctx, o, (*Server).prepare)
}

// startWith starts a server after prepare has found or created the cluster in its folder.
func startWith(ctx context.Context, o Options, prepare func(*Server, context.Context) error) (*Server, error) {
	user, err := guard.Unprivileged()
	if err != nil {
		return nil, err
	}

	o = o.withDefaults()
	dir, err := home(ctx, o, user)
	if err != nil {
		return nil, err
	}

	locks, err := acquire(ctx, o, dir)
	if err != nil {
		return nil, err
	}

	s := &Server{opts: o, dir: dir, user: user, locks: locks}
	s.Server = guard.NewServer(guard.Config{
		Name: "PostgreSQL", Spec: s.spec, LogFile: logFile(dir), Stop: fastShutdown, Kill: immediateShutdown,
		Ready: func(context.Context) error { return postmasterReady(postmasterFile(dir), s.PID()) },
	})

	if err := s.begin(ctx, prepare); err != nil {
		return nil, errors.Join(err, s.release())
	}
	return s, nil
}

// begin does the part of startWith that needs the lock.
func (s *Server) begin(ctx context.Context, prepare func(*Server, context.Context) error) error {
	if s.opts.Fresh {
		s.opts.sayf("Removing the PostgreSQL cluster in %s, if there is one", s.dir)
		if err := errors.Join(os.RemoveAll(dataDir(s.dir)), os.RemoveAll(passwordFile(s.dir))); err != nil {
			return fmt.Errorf("remove the old cluster: %w", err)
		}
	}
	if err := prepare(s, ctx); err != nil {
		return err
	}

	as := ""
	if s.user != nil {
		as = ", as user " + s.user.Name + " because PostgreSQL refuses root"
	}
	s.opts.sayf("Starting PostgreSQL %d.%d from %s%s", s.bin.major, s.bin.minor, s.bin.binDir, as)

	port := readNumber(portFile(s.dir))
	if port != 0 && !guard.IsFree(ctx, port) {
		s.opts.sayf("Port %d, which PostgreSQL used last time, is taken: using another one", port)
		port = 0
	}

	if err := s.Start(ctx, port); err != nil {
		return err
	}
	return s.user.WriteFile(portFile(s.dir), fmt.Sprintln(s.Port()))
}

// prepare finds the programs and creates the cluster unless it exists.
func (s *Server) prepare(ctx context.Context) (err error) {
	s.bin, err = programs(ctx, s.opts, s.dir, s.user)
	if err != nil {
		return err
	}
	return s.initialise(ctx)
}

// spec describes how to run the server.
func (s *Server) spec(port int) (guard.Spec, error) {
	args := s.opts.command(dataDir(s.dir), port)
	if s.upstream != "" { // ignored without standby.signal
		args = append(args, "-c", "primary_conninfo="+s.upstream)
	}
	spec := s.program("postgres", args...)
	spec.Stop, spec.Grace = fastShutdown, guardGrace
	if s.temporary() {
		spec.Stop = immediateShutdown
	}
	return spec, nil
}

// program describes how to run one of PostgreSQL's programs.
func (s *Server) program(name string, args ...string) guard.Spec {
	spec := guard.Spec{
		Path: filepath.Join(s.bin.binDir, name), Args: args, Env: s.opts.serverEnv(), Dir: "/", User: s.user,
		Hold: s.locks.running,
	}
	if s.temporary() {
		spec.Remove = s.dir
	}
	return spec
}

func (s *Server) temporary() bool { return s.opts.Dir == "" }

// postmasterReady returns nil when the server with this process id accepts connections. Like pg_ctl, it
// reads line 8 of postmaster.pid. A connection would prove less: another process may have the port.
func postmasterReady(file string, pid int) error {
	const statusLine = 7
	lines := strings.Split(readFile(file), "\n")
	if len(lines) <= statusLine || readNumber(file) != pid || strings.TrimSpace(lines[statusLine]) != "ready" {
		return errors.New("it is still starting")
	}
	return nil
}

// URL returns the URL of a database of this server, with the superuser's name and password, for lib/pq
// and all programs that read libpq's URLs.
func (s *Server) URL(database string) string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(Superuser, s.password),
		Host:     s.Address(),
		Path:     "/" + database,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// OnSession runs f on a new session of a database and ends it. It leaves no pool that could be mistaken for a leak.
func OnSession(ctx context.Context, connector driver.Connector, f func(conn *sql.Conn) error) error {
	db := sql.OpenDB(connector)
	conn, err := db.Conn(ctx)
	if err != nil {
		return errors.Join(fmt.Errorf("connect to the database: %w", err), db.Close())
	}
	return errors.Join(f(conn), conn.Close(), db.Close())
}

// Dir returns the folder with everything of this server: Options.Dir, or its replacement if root runs
// the server.
func (s *Server) Dir() string { return s.dir }

// BinDir returns the folder of the server's programs. In an installed package it also has pgbench and
// psql.
func (s *Server) BinDir() string { return s.bin.binDir }

// Stop shuts the server down in order, which disconnects its clients, and releases the folder; a temporary
// one is removed. If ctx ends first, Stop ends the server immediately instead; commits are safe either
// way. A second Stop does nothing.
func (s *Server) Stop(ctx context.Context) error {
	if err := s.Server.Stop(ctx); err != nil {
		return err
	}
	return s.release()
}

// release releases the folder of a server that has ended, and removes a temporary one.
func (s *Server) release() error {
	defer s.locks.release()
	if !s.temporary() {
		return nil
	}
	return os.RemoveAll(s.dir)
}
