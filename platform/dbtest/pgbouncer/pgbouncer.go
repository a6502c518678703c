// Package pgbouncer runs a private pgbouncer in transaction mode, for tests and
// for the lab.
package pgbouncer

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/localpg"
	"github.com/rowlock/rowlock/platform/localpg/guard"
)

// ErrNotInstalled means that pgbouncer is not installed on this machine.
var ErrNotInstalled = errors.New("pgbouncer is not installed (`apt-get install pgbouncer`, `brew install pgbouncer`)")

// Pooler is a pgbouncer in front of one server. As in production it refuses startup
// parameters that it does not know. Its methods are not safe for concurrent use.
type Pooler struct {
	program string
	dir     string
	as      *syscall.Credential
	port    int
	probe   string // a URL through it

	process *guard.Process // nil while it is stopped
}

// Start starts a pgbouncer in front of the server and for the roles that the URLs name,
// with poolSize connections for each pair of role and database. It uses TLS to the
// server as the URLs say. path is the environment's PATH. Without pgbouncer it returns
// ErrNotInstalled. Stop ends the pooler.
func Start(ctx context.Context, path string, poolSize int, dsns ...string) (*Pooler, error) {
	program := find(path)
	if program == "" {
		return nil, ErrNotInstalled
	}
	for {
		p, err := start(ctx, program, poolSize, dsns)
		if !errors.Is(err, errPortTaken) {
			return p, err
		}
	}
}

// DSN returns dsn with the pooler's address, with binary_parameters=yes, and without TLS,
// which only the pooler uses, to the server.
func (p *Pooler) DSN(dsn string) (string, error) {
	through, err := url.Parse(dsn)
	if err != nil {
		return "", errors.New("the DSN must be a URL") // the error may quote the password
	}
	through.Host = p.address()
	query := through.Query()
	query.Set("sslmode", "disable")
	for _, name := range []string{"sslrootcert", "sslcert", "sslkey"} {
		query.Del(name)
	}
	query.Set("binary_parameters", "yes")
	through.RawQuery = query.Encode()
	return through.String(), nil
}

// Restart ends the pooler immediately, disconnecting its clients, and starts it again on
// the same port. It returns when a query succeeds through it.
func (p *Pooler) Restart(ctx context.Context) error {
	if err := p.end(); err != nil {
		return err
	}
	const tries = 50 // connections that are being closed may hold the port for a moment
	for try := 1; ; try++ {
		err := p.launch(ctx)
		if err == nil || !errors.Is(err, errPortTaken) || try == tries {
			return err
		}
	}
}

// Stop ends the pooler and removes its folder.
func (p *Pooler) Stop() error {
	err := errors.Join(p.end(), os.RemoveAll(p.dir))
	if err != nil {
		return fmt.Errorf("stop pgbouncer: %w", err)
	}
	return nil
}

var errPortTaken = errors.New("the port is taken")

func find(path string) string {
	folders := append(filepath.SplitList(path), "/usr/sbin", "/usr/local/sbin", "/opt/homebrew/bin")
	for _, folder := range folders {
		program := filepath.Join(folder, "pgbouncer")
		if info, err := os.Stat(program); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0 {
			return program
		}
	}
	return ""
}

func start(ctx context.Context, program string, poolSize int, dsns []string) (p *Pooler, err error) {
	as, err := localpg.Unprivileged()
	if err != nil {
		return nil, err
	}
	port, err := localpg.FreePort(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "rowlock-pgbouncer-*")
	if err != nil {
		return nil, fmt.Errorf("make a folder: %w", err)
	}
	p = &Pooler{program: program, dir: dir, as: as, port: port}
	if err = p.configure(poolSize, dsns); err == nil {
		err = p.launch(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return p, nil
}

func (p *Pooler) launch(ctx context.Context) error {
	log, err := os.Create(filepath.Join(p.dir, "log"))
	if err != nil {
		return fmt.Errorf("create the log: %w", err)
	}
	defer func() { _ = log.Close() }() // pgbouncer has its own copy
	process, err := guard.Start(guard.Spec{
		// Not the caller's environment: it may hold a password, for another server.
		Path: p.program, Args: []string{filepath.Join(p.dir, "ini")}, Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin"},
		Dir: "/", Output: log, User: p.as, Stop: syscall.SIGTERM, Remove: p.dir,
	})
	if err != nil {
		return err
	}
	if err := p.await(ctx, process); err != nil {
		said, _ := os.ReadFile(log.Name())
		if strings.Contains(string(said), "Address already in use") {
			err = errPortTaken
		}
		return errors.Join(fmt.Errorf("start pgbouncer: %w: %s", err, said),
			process.End(context.WithoutCancel(ctx), syscall.SIGKILL))
	}
	p.process = process
	return nil
}

func (p *Pooler) end() error {
	if p.process == nil {
		return nil
	}
	// SIGTERM is pgbouncer's immediate shutdown (SIGINT would wait for its clients).
	if err := p.process.End(context.Background(), syscall.SIGTERM); err != nil {
		return fmt.Errorf("end pgbouncer: %w", err)
	}
	p.process = nil
	return nil
}

// configure writes the configuration into the folder.
func (p *Pooler) configure(poolSize int, dsns []string) error {
	var users strings.Builder
	var server *url.URL
	double := strings.NewReplacer(`"`, `""`)
	for _, dsn := range dsns {
		u, err := url.Parse(dsn)
		if err != nil || u.Hostname() == "" || u.User == nil {
			return errors.New("the DSN must be a URL with a user and a host")
		}
		password, _ := u.User.Password()
		users.WriteString(`"` + double.Replace(u.User.Username()) + `" "` + double.Replace(password) + "\"\n")
		server = u
	}
	if server == nil {
		return errors.New("a pooler without a server")
	}
	serverPort := server.Port()
	if serverPort == "" {
		serverPort = "5432"
	}
	ini := fmt.Sprintf(`[databases]
* = host=%s port=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = scram-sha-256
auth_file = %s
pool_mode = transaction
default_pool_size = %d
max_client_conn = 2000
`, server.Hostname(), serverPort, p.port, filepath.Join(p.dir, "users"), poolSize)
	files := map[string]string{"users": users.String()}
	secure, err := p.secure(server.Query(), files)
	if err != nil {
		return err
	}
	files["ini"] = ini + secure
	for name, text := range files {
		file := filepath.Join(p.dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return fmt.Errorf("write the configuration: %w", err)
		}
		if err := localpg.Own(p.as, file); err != nil {
			return err
		}
	}
	// Root's pgbouncer runs as another user, which must be able to enter.
	if err := os.Chmod(p.dir, 0o711); err != nil { //nolint:gosec // as the comment says
		return fmt.Errorf("open the folder: %w", err)
	}
	p.probe, err = p.DSN(dsns[0])
	return err
}

// await returns when the port is open and a query succeeds.
func (p *Pooler) await(ctx context.Context, process *guard.Process) error {
	err := process.Await(ctx, func(ctx context.Context) error {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", p.address())
		if err != nil {
			return err //nolint:wrapcheck // Await wraps it
		}
		return conn.Close()
	})
	if err != nil {
		return err
	}
	connector, err := pq.NewConnector(p.probe)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	db := sql.OpenDB(connector)
	return errors.Join(db.PingContext(ctx), db.Close())
}

func (p *Pooler) address() string { return fmt.Sprintf("127.0.0.1:%d", p.port) }
