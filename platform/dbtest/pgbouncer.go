package dbtest

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
	"testing"
	"time"

	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/localpg"
	"github.com/rowlock/rowlock/platform/localpg/guard"
)

// PgBouncer starts a pgbouncer in transaction mode in front of dsn's database, with poolSize connections to the server, and returns
// dsn led through it, with binary_parameters=yes; it ends with the test. It is as strict as in production: a startup parameter that it
// does not know is refused. Without pgbouncer installed the test is skipped, or fails where the environment says CI=true.
func PgBouncer(t testing.TB, dsn string, poolSize int) string {
	t.Helper()
	environ := config.Environ()
	program := findPgBouncer(environ)
	if program == "" {
		const missing = "pgbouncer is not installed (`apt-get install pgbouncer`, `brew install pgbouncer`)"
		if environ["CI"] == "true" {
			t.Fatal(missing + ", and with CI=true no test may be skipped for that")
		}
		t.Skip(missing)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		through, err := startPgBouncer(ctx, t, program, dsn, poolSize)
		if err == nil {
			return through
		}
		if !errors.Is(err, errPortTaken) {
			t.Fatalf("dbtest: pgbouncer: %v", err)
		}
	}
}

var errPortTaken = errors.New("the port is taken")

func findPgBouncer(environ map[string]string) string {
	folders := append(filepath.SplitList(environ["PATH"]), "/usr/sbin", "/usr/local/sbin", "/opt/homebrew/bin")
	for _, folder := range folders {
		program := filepath.Join(folder, "pgbouncer")
		if info, err := os.Stat(program); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0 {
			return program
		}
	}
	return ""
}

func startPgBouncer(ctx context.Context, t testing.TB, program, dsn string, poolSize int) (string, error) {
	t.Helper()
	server, err := url.Parse(dsn)
	if err != nil || server.Hostname() == "" || server.User == nil {
		return "", errors.New("the DSN must be a URL with a user and a host")
	}
	as, err := localpg.Unprivileged()
	if err != nil {
		return "", err
	}
	port, err := localpg.FreePort(ctx)
	if err != nil {
		return "", err
	}
	dir, err := configurePgBouncer(t, server, as, port, poolSize)
	if err != nil {
		return "", err
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return "", fmt.Errorf("create the log: %w", err)
	}
	defer func() { _ = log.Close() }() // pgbouncer has its own copy

	proc, err := guard.Start(guard.Spec{
		Path: program, Args: []string{filepath.Join(dir, "ini")}, Dir: "/", Output: log, User: as, Stop: syscall.SIGTERM, Remove: dir,
	})
	if err != nil {
		return "", err
	}
	t.Cleanup(func() {
		// SIGTERM is pgbouncer's immediate shutdown (SIGINT would wait for its clients).
		if err := proc.Signal(syscall.SIGTERM); err != nil {
			t.Errorf("dbtest: pgbouncer: %v", err)
		}
		<-proc.Done()
	})

	through := *server
	through.Host = fmt.Sprintf("127.0.0.1:%d", port)
	query := through.Query()
	query.Set("sslmode", "disable")
	query.Set("binary_parameters", "yes")
	through.RawQuery = query.Encode()
	return through.String(), awaitPgBouncer(ctx, proc, through.String(), log.Name())
}

// configurePgBouncer writes the configuration into a folder that goes with the test.
func configurePgBouncer(t testing.TB, server *url.URL, as *syscall.Credential, port, poolSize int) (dir string, err error) {
	t.Helper()
	//nolint:usetesting // root's pgbouncer runs as another user, who may not enter the folder that holds t.TempDir
	dir, err = os.MkdirTemp("", "rowlock-pgbouncer-*")
	if err != nil {
		return "", fmt.Errorf("make a folder: %w", err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("dbtest: pgbouncer: %v", err)
		}
	})
	password, _ := server.User.Password()
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
`, server.Hostname(), serverPort, port, filepath.Join(dir, "users"), poolSize)
	double := strings.NewReplacer(`"`, `""`)
	users := `"` + double.Replace(server.User.Username()) + `" "` + double.Replace(password) + "\"\n"
	for name, text := range map[string]string{"ini": ini, "users": users} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return "", fmt.Errorf("write the configuration: %w", err)
		}
		if as == nil {
			continue
		}
		if err := os.Chown(file, int(as.Uid), int(as.Gid)); err != nil {
			return "", fmt.Errorf("hand the configuration over: %w", err)
		}
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		return "", fmt.Errorf("open the folder: %w", err)
	}
	return dir, nil
}

// awaitPgBouncer returns when a query gets through.
func awaitPgBouncer(ctx context.Context, proc *guard.Process, dsn, log string) error {
	address, err := url.Parse(dsn)
	if err != nil {
		return fmt.Errorf("address of pgbouncer: %w", err)
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address.Host)
		if err == nil {
			_ = conn.Close()
			break
		}
		select {
		case <-tick.C:
		case <-proc.Done():
			said, _ := os.ReadFile(log)
			if strings.Contains(string(said), "Address already in use") {
				return errPortTaken
			}
			return fmt.Errorf("it ended during its start: %s", said)
		case <-ctx.Done():
			return fmt.Errorf("it does not take connections: %w", ctx.Err())
		}
	}
	connector, err := pq.NewConnector(dsn)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	db := sql.OpenDB(connector)
	if err := errors.Join(db.PingContext(ctx), db.Close()); err != nil {
		said, _ := os.ReadFile(log)
		return fmt.Errorf("connect: %w: %s", err, said)
	}
	return nil
}
