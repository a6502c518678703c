// Package pgbouncer runs a private pgbouncer in transaction mode, for tests and
// for the lab.
package pgbouncer

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/localpg/guard"
)

// ErrNotInstalled means that pgbouncer is not installed on this machine.
var ErrNotInstalled = errors.New("pgbouncer is not installed (`apt-get install pgbouncer`, `brew install pgbouncer`)")

// Pooler is a pgbouncer in front of one server. As in production, it refuses unknown startup
// parameters. Restart ends it immediately, which disconnects its clients, and returns when
// a query through it succeeds again.
type Pooler struct {
	*guard.Server

	dir  string
	user *guard.User
}

// Start starts a pgbouncer in front of the server and for the roles in the URLs, with
// poolSize connections per role and database. The URLs decide about TLS to the server.
// path is the environment's PATH. Start returns ErrNotInstalled if there is no pgbouncer.
// Stop ends the pooler.
func Start(ctx context.Context, path string, poolSize int, dsns ...string) (*Pooler, error) {
	program := find(path)
	if program == "" {
		return nil, ErrNotInstalled
	}

	user, err := guard.Unprivileged()
	if err != nil {
		return nil, err
	}

	dir, err := guard.TempFolder("", "rowlock-pgbouncer-*")
	if err != nil {
		return nil, err
	}

	p := &Pooler{dir: dir, user: user}
	settings, err := p.configure(poolSize, dsns)
	if err == nil {
		p.Server = p.server(program, settings, dsns[0])
		err = p.Start(ctx, 0)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return p, nil
}

// Stop ends the pooler and removes its folder.
func (p *Pooler) Stop() error { return errors.Join(p.Kill(), os.RemoveAll(p.dir)) }

// DSN returns dsn with the pooler's address, with binary_parameters=yes, and without TLS:
// only the pooler uses TLS to the server.
func (p *Pooler) DSN(dsn string) (string, error) {
	through, err := url.Parse(dsn)
	if err != nil {
		return "", errors.New("the DSN must be a URL") // err may quote the password
	}

	through.Host = p.Address()
	query := through.Query()
	query.Set("sslmode", "disable")
	for _, name := range []string{"sslrootcert", "sslcert", "sslkey"} {
		query.Del(name)
	}
	query.Set("binary_parameters", "yes")
	through.RawQuery = query.Encode()
	return through.String(), nil
}

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

// server returns a guarded server for the program. It is ready when the database of probe answers.
func (p *Pooler) server(program, settings, probe string) *guard.Server {
	ini := filepath.Join(p.dir, "ini")
	return guard.NewServer(guard.Config{
		Name: "pgbouncer",
		Spec: func(port int) (guard.Spec, error) {
			return guard.Spec{
				// Not the caller's environment: it may contain a password for another server.
				Path: program, Args: []string{ini}, Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin"}, Dir: "/",
				User: p.user, Remove: p.dir,
			}, p.user.WriteFile(ini, fmt.Sprintf("%slisten_port = %d\n", settings, port))
		},
		LogFile: filepath.Join(p.dir, "log"),
		Ready:   func(ctx context.Context) error { return p.ping(ctx, probe) },
		// SIGTERM is pgbouncer's immediate shutdown (SIGINT would wait for its clients).
		Stop: syscall.SIGTERM, Kill: syscall.SIGTERM,
	})
}

// configure writes the files that the configuration refers to, and returns the configuration without
// the port.
func (p *Pooler) configure(poolSize int, dsns []string) (ini string, err error) {
	var users strings.Builder
	var server *url.URL
	double := strings.NewReplacer(`"`, `""`)
	for _, dsn := range dsns {
		u, err := url.Parse(dsn)
		if err != nil || u.Hostname() == "" || u.User == nil {
			return "", errors.New("the DSN must be a URL with a user and a host")
		}
		password, _ := u.User.Password()
		users.WriteString(`"` + double.Replace(u.User.Username()) + `" "` + double.Replace(password) + "\"\n")
		server = u
	}

	if server == nil {
		return "", errors.New("a pooler without a server")
	}

	files := map[string]string{"users": users.String()}
	secure, err := p.secure(server.Query(), files)
	if err != nil {
		return "", err
	}

	for name, text := range files {
		if err := p.user.WriteFile(filepath.Join(p.dir, name), text); err != nil {
			return "", err
		}
	}

	return fmt.Sprintf(`[databases]
* = host=%s port=%s
[pgbouncer]
listen_addr = 127.0.0.1
unix_socket_dir =
auth_type = scram-sha-256
auth_file = %s
pool_mode = transaction
default_pool_size = %d
max_client_conn = 2000
`, server.Hostname(), cmp.Or(server.Port(), "5432"), filepath.Join(p.dir, "users"), poolSize) + secure, nil
}

// ping runs an empty query on dsn's database through the pooler.
func (p *Pooler) ping(ctx context.Context, dsn string) error {
	through, err := p.DSN(dsn)
	if err != nil {
		return err
	}
	connector, err := pq.NewConnector(through)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	db := sql.OpenDB(connector)
	return errors.Join(db.PingContext(ctx), db.Close())
}
