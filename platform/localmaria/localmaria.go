// Package localmaria runs a private MariaDB server that belongs to this process, like package localpg for
// PostgreSQL, for tests and benchmarks. It uses the installed server and downloads nothing. The server
// cannot outlive the process (package guard).
package localmaria

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock/platform/localpg/guard"
)

// ErrNotInstalled means that the machine has no MariaDB server.
var ErrNotInstalled = errors.New("no MariaDB server is installed here (Debian: mariadb-server)")

// Superuser is the account that owns a server started here.
const Superuser = "rowlock"

// Options configure a private server.
type Options struct {
	// Parent is where to create the server's folder; empty: in memory if there is room, else where the
	// system keeps temporary files. The server's end removes the folder, through Stop or the guard.
	Parent string
	// Settings are the server's settings as on its command line, without the dashes:
	// {"innodb-doublewrite": "0"}.
	Settings map[string]string
}

// Server is a MariaDB server that belongs to this process. Its Kill sends SIGKILL; a Restart then
// recovers from the log.
type Server struct {
	*guard.Server

	settings map[string]string
	dir      string
	daemon   string
	user     *guard.User
	password string
}

// Start creates a data folder and starts its server. It returns when the server accepts connections.
func Start(ctx context.Context, o Options) (*Server, error) {
	daemon, install := find("mariadbd"), find("mariadb-install-db")
	if daemon == "" || install == "" {
		return nil, ErrNotInstalled
	}

	user, err := guard.Unprivileged() // any account but root would do
	if err != nil {
		return nil, err
	}

	dir, err := guard.TempFolder(o.Parent, "rowlock-mariadb-*")
	if err != nil {
		return nil, err
	}

	s := &Server{settings: o.Settings, dir: dir, daemon: daemon, user: user, password: rand.Text()}
	s.Server = guard.NewServer(guard.Config{
		Name: "MariaDB", Spec: s.spec, LogFile: filepath.Join(dir, "server.log"), Ready: s.ping,
		Stop: syscall.SIGTERM, Kill: syscall.SIGKILL,
	})

	err = s.initialise(ctx, install)
	if err == nil {
		err = s.Start(ctx, 0)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

// find searches PATH and the folders where packages install the programs; root's PATH may lack sbin.
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

func (s *Server) data() string     { return filepath.Join(s.dir, "data") }
func (s *Server) initFile() string { return filepath.Join(s.dir, "init.sql") }

// initialise creates the data folder and the account.
func (s *Server) initialise(ctx context.Context, install string) error {
	account := "CREATE USER IF NOT EXISTS '" + Superuser + "'@'127.0.0.1' IDENTIFIED BY '" + s.password + "';\n" +
		"GRANT ALL ON *.* TO '" + Superuser + "'@'127.0.0.1' WITH GRANT OPTION;\n" +
		// install-db creates accounts without a password. The one for the socket remains: the socket is in the data folder.
		"DROP USER IF EXISTS 'root'@'127.0.0.1';\nDROP USER IF EXISTS 'root'@'::1';\n"

	err := errors.Join(os.Mkdir(s.data(), 0o700), s.user.Own(s.data()), s.user.WriteFile(s.initFile(), account))
	if err != nil {
		return fmt.Errorf("prepare the MariaDB server's folder: %w", err)
	}

	spec := s.program(install, "--no-defaults", "--datadir="+s.data(), "--tmpdir="+s.data(),
		"--auth-root-authentication-method=normal", "--skip-test-db", logFileSize)
	if err := guard.Run(ctx, spec, s.LogFile()); err != nil {
		return fmt.Errorf("make the MariaDB server's data folder: %w", err)
	}
	return nil
}

// logFileSize keeps the folder small.
const logFileSize = "--innodb-log-file-size=64M"

// program describes how to run one of MariaDB's programs.
func (s *Server) program(path string, args ...string) guard.Spec {
	return guard.Spec{
		Path: path, Args: args, Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin", "LC_ALL=C", "TZ=UTC"}, Dir: "/",
		User: s.user, Stop: syscall.SIGKILL, Remove: s.dir,
	}
}

// spec describes how to run the server.
func (s *Server) spec(port int) (guard.Spec, error) {
	all := map[string]string{"max-connections": "400", "default-time-zone": "+00:00"}
	maps.Copy(all, s.settings)
	args := make([]string, 0, 16+len(all))
	args = append(args,
		"--no-defaults", "--datadir="+s.data(), "--socket="+filepath.Join(s.data(), "sock"), "--tmpdir="+s.data(),
		"--pid-file="+filepath.Join(s.data(), "pid"), "--bind-address=127.0.0.1", "--port="+strconv.Itoa(port),
		"--skip-name-resolve", "--init-file="+s.initFile(), logFileSize,
	)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		args = append(args, "--"+name+"="+all[name])
	}
	return s.program(s.daemon, args...), nil
}

// ping returns nil when the server accepts connections of its account.
func (s *Server) ping(ctx context.Context) error {
	cfg := mysql.NewConfig()
	cfg.User, cfg.Passwd, cfg.Net, cfg.Addr, cfg.DBName = Superuser, s.password, "tcp", s.Address(), "mysql"
	cfg.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return fmt.Errorf("connect to the new MariaDB server: %w", err)
	}
	db := sql.OpenDB(connector)
	return errors.Join(db.PingContext(ctx), db.Close())
}

// URL returns the URL of a database of this server for package sqldb, with the superuser's name and
// password.
func (s *Server) URL(database string) string {
	u := url.URL{
		Scheme: "mysql", User: url.UserPassword(Superuser, s.password), Host: s.Address(), Path: "/" + database,
		RawQuery: "tls=false",
	}
	return u.String()
}

// Stop ends the server immediately and removes its folder.
func (s *Server) Stop() error {
	// The folder is removed, so a clean shutdown would be wasted.
	return errors.Join(s.Kill(), os.RemoveAll(s.dir))
}
