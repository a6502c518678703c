// Package localmaria runs a private MariaDB server that belongs to this process, as package localpg
// does for PostgreSQL, for tests and benchmarks. It uses the installed server; nothing is
// downloaded. The server cannot outlive the process (package guard).
package localmaria

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock/platform/localpg"
	"github.com/rowlock/rowlock/platform/localpg/guard"
)

// ErrNotInstalled means that the machine has no MariaDB server.
var ErrNotInstalled = errors.New("no MariaDB server is installed here (Debian: mariadb-server)")

// Superuser is the account that owns a server made here.
const Superuser = "rowlock"

const (
	// startLimit bounds a start, recovery from a crash included.
	startLimit = time.Minute
	// stopGrace is how long an orderly shutdown may take before SIGKILL.
	stopGrace = 20 * time.Second
	// portTries is how many ports Start tries when another process takes a free one first.
	portTries = 5
)

// Options configure a private server. Only Dir is required.
type Options struct {
	// Dir is an empty folder for everything of this server; for root one that others may enter.
	Dir string
	// Temporary makes the guard remove Dir when the process dies without Stop.
	Temporary bool
	// Settings are the server's settings, as on its command line without the dashes:
	// {"innodb-doublewrite": "0"}.
	Settings map[string]string
}

// Server is a MariaDB server that belongs to this process. Its methods are safe for concurrent use.
type Server struct {
	opts     Options
	daemon   string
	who      *syscall.Credential
	password string

	mu   sync.Mutex // held by Stop, Kill and Restart
	port atomic.Int64
	proc atomic.Pointer[guard.Process]
}

// Start makes a data folder in o.Dir and starts its server. It returns when the server takes connections.
func Start(ctx context.Context, o Options) (*Server, error) {
	daemon, install := find("mariadbd"), find("mariadb-install-db")
	if daemon == "" || install == "" {
		return nil, ErrNotInstalled
	}
	who, err := localpg.Unprivileged() // any account but root's will do
	if err != nil {
		return nil, err
	}
	s := &Server{opts: o, daemon: daemon, who: who, password: rand.Text()}
	if err := s.initialise(ctx, install); err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		port, err := localpg.FreePort(ctx)
		if err != nil {
			return nil, err
		}
		s.port.Store(int64(port))
		if err = s.launch(ctx); err == nil {
			return s, nil
		}
		if try == portTries || !strings.Contains(err.Error(), "Address already in use") {
			return nil, err
		}
	}
}

// find searches PATH and the folders where packages put the programs; root's PATH may lack sbin.
func find(program string) string {
	for _, dir := range []string{
		"", "/usr/sbin", "/usr/bin", "/usr/libexec", "/usr/local/sbin", "/usr/local/bin", "/opt/homebrew/bin",
	} {
		if path, err := exec.LookPath(filepath.Join(dir, program)); err == nil {
			return path
		}
	}
	return ""
}

func (s *Server) data() string     { return filepath.Join(s.opts.Dir, "data") }
func (s *Server) initFile() string { return filepath.Join(s.opts.Dir, "init.sql") }

// LogFile returns the file that the server writes its messages to.
func (s *Server) LogFile() string { return filepath.Join(s.opts.Dir, "server.log") }

// initialise makes the data folder and the account.
func (s *Server) initialise(ctx context.Context, install string) error {
	account := "CREATE USER IF NOT EXISTS '" + Superuser + "'@'127.0.0.1' IDENTIFIED BY '" + s.password + "';\n" +
		"GRANT ALL ON *.* TO '" + Superuser + "'@'127.0.0.1' WITH GRANT OPTION;\n" +
		// install-db makes accounts without a password. The socket's stays: it lies in the data folder.
		"DROP USER IF EXISTS 'root'@'127.0.0.1';\nDROP USER IF EXISTS 'root'@'::1';\n"
	if err := errors.Join(os.Mkdir(s.data(), 0o700), os.WriteFile(s.initFile(), []byte(account), 0o600)); err != nil {
		return fmt.Errorf("prepare the MariaDB server's folder: %w", err)
	}
	if err := errors.Join(localpg.Own(s.who, s.data()), localpg.Own(s.who, s.initFile())); err != nil {
		return err
	}
	//nolint:gosec // a program of the system's
	cmd := exec.CommandContext(ctx, install, "--no-defaults", "--datadir="+s.data(), "--tmpdir="+s.data(),
		"--auth-root-authentication-method=normal", "--skip-test-db", logFileSize)
	cmd.Dir, cmd.Env = "/", environ()
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.who}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make the MariaDB server's data folder: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

func environ() []string {
	return []string{"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin", "LC_ALL=C", "TZ=UTC"}
}

// logFileSize keeps the folder small.
const logFileSize = "--innodb-log-file-size=64M"

// arguments returns the server's command line without the program's name.
func (s *Server) arguments() []string {
	all := map[string]string{"max-connections": "400", "default-time-zone": "+00:00"}
	maps.Copy(all, s.opts.Settings)
	args := make([]string, 0, 16+len(all))
	args = append(args,
		"--no-defaults", "--datadir="+s.data(), "--socket="+filepath.Join(s.data(), "sock"), "--tmpdir="+s.data(),
		"--pid-file="+filepath.Join(s.data(), "pid"), "--bind-address=127.0.0.1", "--port="+strconv.Itoa(s.Port()),
		"--skip-name-resolve", "--init-file="+s.initFile(), logFileSize,
	)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		args = append(args, "--"+name+"="+all[name])
	}
	return args
}

// launch starts the process and waits until it takes connections.
func (s *Server) launch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	log, err := os.OpenFile(s.LogFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the MariaDB server's log: %w", err)
	}
	defer func() { _ = log.Close() }() // the server has its own copy
	spec := guard.Spec{
		Path: s.daemon, Args: s.arguments(), Env: environ(), Dir: "/", Output: log, User: s.who,
		Stop: syscall.SIGTERM, Grace: stopGrace,
	}
	if s.opts.Temporary {
		spec.Stop, spec.Remove = syscall.SIGKILL, s.opts.Dir
	}
	proc, err := guard.Start(spec)
	if err != nil {
		return fmt.Errorf("start MariaDB: %w", err)
	}
	s.proc.Store(proc)
	if err := s.await(ctx, proc); err != nil {
		return errors.Join(err, s.kill())
	}
	return nil
}

// await returns when the server takes connections.
func (s *Server) await(ctx context.Context, proc *guard.Process) error {
	connector, err := mysql.NewConnector(s.config("mysql"))
	if err != nil {
		return fmt.Errorf("connect to the new MariaDB server: %w", err)
	}
	db := sql.OpenDB(connector)
	defer func() { _ = db.Close() }()
	if err := proc.Await(ctx, db.PingContext); err != nil {
		return fmt.Errorf("start MariaDB: %w: %s", err, s.logErrors())
	}
	return nil
}

// logErrors returns the errors in the server's log.
func (s *Server) logErrors() string {
	text, err := os.ReadFile(s.LogFile())
	if err != nil {
		return err.Error()
	}
	var errs []string
	for line := range bytes.Lines(text) {
		if bytes.Contains(line, []byte("[ERROR]")) {
			errs = append(errs, string(bytes.TrimSpace(line)))
		}
	}
	return strings.Join(errs, "; ") + " (messages: " + s.LogFile() + ")"
}

func (s *Server) config(database string) *mysql.Config {
	cfg := mysql.NewConfig()
	cfg.User, cfg.Passwd, cfg.Net, cfg.Addr, cfg.DBName = Superuser, s.password, "tcp", s.address(), database
	cfg.Logger = &mysql.NopLogger{}
	return cfg
}

func (s *Server) address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port())) }

// URL returns the URL of a database of this server, for package sqldb, with the superuser's name and
// password.
func (s *Server) URL(database string) string {
	u := url.URL{
		Scheme: "mysql", User: url.UserPassword(Superuser, s.password), Host: s.address(), Path: "/" + database,
		RawQuery: "tls=false",
	}
	return u.String()
}

// Port returns the server's port on 127.0.0.1. A restart keeps it.
func (s *Server) Port() int { return int(s.port.Load()) }

// Dir returns the folder that holds everything of this server.
func (s *Server) Dir() string { return s.opts.Dir }

// PID returns the process id of the server, running or last run.
func (s *Server) PID() int { return s.proc.Load().PID() }

// Stop shuts the server down in order, or at once when ctx ends first.
func (s *Server) Stop(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.proc.Load().End(ctx, syscall.SIGTERM); err == nil || ctx.Err() == nil {
		return err
	}
	return s.kill()
}

// Kill ends the server with SIGKILL and returns when it has ended. Restart starts it again; the
// server then recovers from its log.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kill()
}

func (s *Server) kill() error { return s.proc.Load().End(context.Background(), syscall.SIGKILL) }

// Restart starts a server that was killed or stopped again, on the same port. It returns when the
// server takes connections.
func (s *Server) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.kill(); err != nil {
		return err
	}
	return s.launch(ctx)
}
