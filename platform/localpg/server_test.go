package localpg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/waittest"
)

func TestLifecycle(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(folder(t), "deeper", "with space")
	var progress strings.Builder
	s := start(t, Options{Dir: dir, Progress: &progress})
	for name, want := range map[string]string{
		"max_connections": "400", "listen_addresses": "127.0.0.1", "fsync": "off", "synchronous_commit": "on",
		"TimeZone": "UTC", "unix_socket_directories": "", "server_encoding": "UTF8",
	} {
		if got := text(t, s.URL("postgres"), "SHOW "+name); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
	if !strings.Contains(progress.String(), "Making a PostgreSQL cluster") {
		t.Errorf("progress of a first start: %q", progress.String())
	}
	if info, err := os.Stat(dataDir(dir)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("data folder: %v %v, want 0700", info.Mode(), err)
	}
	if info, err := os.Stat(passwordFile(dir)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("password file: %v %v, want 0600", info.Mode(), err)
	}
	if err := open(t, strings.Replace(s.URL("postgres"), s.password, "wrong", 1)).PingContext(t.Context()); err == nil {
		t.Error("a wrong password is let in")
	}

	write(t, s.URL("postgres"), "CREATE TABLE kept (n int)")
	none := func() error { return nil }
	for name, end := range map[string]func() error{"Kill": s.Kill, "Crash": s.Crash, "nothing": none} {
		port, pid := s.Port(), s.PID()
		if err := end(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := s.Restart(t.Context()); err != nil {
			t.Fatalf("restart after %s: %v", name, err)
		}
		if s.Port() != port || s.PID() == pid {
			t.Errorf("after %s and Restart: port %d, process %d; before: %d, %d", name, s.Port(), s.PID(), port, pid)
		}
		text(t, s.URL("postgres"), "SELECT count(*) FROM kept")
	}

	port := s.Port()
	stop(t, s)
	stop(t, s) // a second time is no error
	if err := s.Restart(t.Context()); err == nil {
		t.Error("a server that was given up is restarted")
	}
	again := start(t, Options{Dir: dir})
	if again.Port() != port {
		t.Errorf("port %d, want that of the last start, %d", again.Port(), port)
	}
	text(t, again.URL("postgres"), "SELECT count(*) FROM kept")
}

func TestFolderInUse(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	s := start(t, Options{Dir: dir})
	_, err := Start(t.Context(), Options{Dir: dir, Settings: quick()})
	if !errors.Is(err, ErrInUse) {
		t.Errorf("a second start: %v, want ErrInUse", err)
	}
	wantSentence(t, err, dir, strconv.Itoa(os.Getpid()))
	if err := Remove(t.Context(), dir); !errors.Is(err, ErrInUse) {
		t.Errorf("Remove of a running one: %v, want ErrInUse", err)
	}
	if err := open(t, s.URL("postgres")).PingContext(t.Context()); err != nil {
		t.Errorf("the first one suffered: %v", err)
	}
	stop(t, s)
	if err := Remove(t.Context(), dir); err != nil {
		t.Error(err)
	}
	wantGone(t, dir)
	wantSentence(t, Remove(t.Context(), t.TempDir()), "is not the folder of a private server")
}

// The guard alone: the owner is killed, the server stops in order, and the next start finds
// everything in place.
func TestOwnerKilled(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	cmd, url := owner(t, dir)
	write(t, url, "CREATE TABLE kept (n int)")
	pid := postmasterPID(dataDir(dir))
	kill(t, cmd)
	// At once, while the guard is still at work: the start waits for it.
	s := start(t, Options{Dir: dir})
	if alive(pid) && serves(t.Context(), pid, dataDir(dir)) {
		t.Error("the killed owner's server still runs")
	}
	text(t, s.URL("postgres"), "SELECT count(*) FROM kept")
	if log := readFile(s.LogFile()); strings.Contains(log, "automatic recovery in progress") {
		t.Error("the server was not shut down in order")
	}
}

// Owner and guard are killed: the server is an orphan, and the next start stops it.
func TestOwnerAndGuardKilled(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	cmd, url := owner(t, dir)
	write(t, url, "CREATE TABLE kept (n int)")
	pid := postmasterPID(dataDir(dir))
	if err := syscall.Kill(guardOf(t, cmd.Process.Pid), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	kill(t, cmd)
	if err := open(t, url).PingContext(t.Context()); err != nil {
		t.Fatalf("the test is worth nothing: no orphan: %v", err)
	}
	var progress strings.Builder
	s := start(t, Options{Dir: dir, Progress: &progress})
	wantSaid := fmt.Sprintf("(process %d), left over", pid)
	if !strings.Contains(progress.String(), wantSaid) {
		t.Errorf("progress %q, want %q in it", progress.String(), wantSaid)
	}
	text(t, s.URL("postgres"), "SELECT count(*) FROM kept")
}

// Owner, guard and server are killed, as by a loss of power: a stale postmaster.pid is left,
// and its process id belongs to another process.
func TestStalePIDFile(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	s := start(t, Options{Dir: dir})
	write(t, s.URL("postgres"), "CREATE TABLE kept (n int)")
	if err := s.Crash(); err != nil {
		t.Fatal(err)
	}
	pidFile := filepath.Join(dataDir(dir), "postmaster.pid")
	lines := strings.SplitN(readFile(pidFile), "\n", 2)
	if len(lines) != 2 {
		t.Fatal("the test is worth nothing: no postmaster.pid is left")
	}
	stop(t, s)
	// A process that lives, is no PostgreSQL, and is neither the server's own parent nor
	// itself, which PostgreSQL would see through.
	if err := os.WriteFile(pidFile, []byte(strconv.Itoa(os.Getppid())+"\n"+lines[1]), 0o600); err != nil {
		t.Fatal(err)
	}
	again := start(t, Options{Dir: dir})
	text(t, again.URL("postgres"), "SELECT count(*) FROM kept")
}

func TestTemporaryGoesWithItsOwner(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(folder(t), "temporary")
	cmd, url := owner(t, dir)
	kill(t, cmd)
	waittest.Eventually(t, "the server is gone", func() bool { return open(t, url).PingContext(t.Context()) != nil })
	wantGone(t, dir)
}

// Another process takes the port while the server is down: a start takes another port, and Restart
// waits, because clients have the address.
func TestPortTaken(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	s := start(t, Options{Dir: dir})
	old := s.Port()
	stop(t, s)
	listener := listen(t, old)
	var progress strings.Builder
	s = start(t, Options{Dir: dir, Progress: &progress})
	if s.Port() == old || !strings.Contains(progress.String(), "is taken: another one is used") {
		t.Errorf("port %d, progress %q", s.Port(), progress.String())
	}
	closed(t, listener)

	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	listener = listen(t, s.Port())
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if err := s.Restart(ctx); err == nil || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("restart on a taken port: %v, want the deadline", err)
	}
	closed(t, listener)
	if err := s.Restart(t.Context()); err != nil {
		t.Error(err)
	}
	text(t, s.URL("postgres"), "SELECT 'back'")
}

func listen(t *testing.T, port int) net.Listener {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", address(port))
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

func closed(t *testing.T, c io.Closer) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestUnfinishedAndDamagedClusters(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	// A start that was killed in the middle of initdb.
	if err := os.MkdirAll(filepath.Join(dir, "data.new", "base"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(passwordFile(dir), []byte("old\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, Options{Dir: dir})
	text(t, s.URL("postgres"), "SELECT 'fine'")
	stop(t, s)

	if err := os.Rename(passwordFile(dir), passwordFile(dir)+".away"); err != nil {
		t.Fatal(err)
	}
	_, err := Start(t.Context(), Options{Dir: dir})
	wantSentence(t, err, "the password", "is lost", dir)
	if err := os.Rename(passwordFile(dir)+".away", passwordFile(dir)); err != nil {
		t.Fatal(err)
	}

	_, err = Start(t.Context(), Options{Dir: dir, Settings: map[string]string{"no_such_setting": "1"}})
	wantSentence(t, err, `unrecognized configuration parameter "no_such_setting"`, logFile(dir))

	version := filepath.Join(dataDir(dir), "PG_VERSION")
	if err := os.WriteFile(version, []byte("13\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Start(t.Context(), Options{Dir: dir})
	wantSentence(t, err, "was made by PostgreSQL 13", "install 13, or remove the folder")
}

// The caller's libpq variables have no effect on the server, the defaults are durable, and a start
// can be cancelled.
func TestEnvironmentAndContext(t *testing.T) {
	t.Parallel()
	environ := map[string]string{
		"PATH": "/usr/bin:/bin", "PGDATA": "/nonexistent", "PGPORT": "1", "PGOPTIONS": "-c nonsense=1",
		"LC_ALL": "xx_XX.nonsense", "LANG": "de_DE",
	}
	s := start(t, Options{Dir: folder(t), Environ: environ, Settings: map[string]string{}})
	for _, name := range []string{"fsync", "synchronous_commit", "full_page_writes"} {
		if got := text(t, s.URL("postgres"), "SHOW "+name); got != "on" {
			t.Errorf("%s = %s", name, got)
		}
	}

	dir := folder(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Start(ctx, Options{Dir: dir, Settings: quick()}); err == nil {
		t.Error("a start within 50 ms: the test is worth nothing")
	}
	// The next start succeeds all the same.
	start(t, Options{Dir: dir})
}

// Fresh makes a new cluster in the old place, whatever was wrong with the old one.
func TestFresh(t *testing.T) {
	t.Parallel()
	o := Options{Dir: filepath.Join(folder(t), "data")}
	for range 2 {
		s := start(t, o)
		write(t, s.URL("postgres"), "CREATE TABLE t ()") // fails when it exists
		if err := s.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		text(t, s.URL("postgres"), "SELECT count(*) FROM t") // a restart keeps the cluster
		stop(t, s)
		if err := os.WriteFile(filepath.Join(dataDir(s.Dir()), "PG_VERSION"), []byte("8\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		o.Fresh = true
	}
}

// Root's server runs as another user. The data goes to a folder that this user can enter.
func TestRoot(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("for root only")
	}
	private := folder(t)
	if err := os.Chmod(private, 0o700); err != nil {
		t.Fatal(err)
	}
	var progress strings.Builder
	asked := filepath.Join(private, "data folder")
	s := start(t, Options{Dir: asked, Temporary: true, Progress: &progress})
	if exists(asked) {
		t.Errorf("%s stays behind, empty", asked)
	}
	t.Cleanup(func() {
		stop(t, s)
		if err := Remove(context.WithoutCancel(t.Context()), s.Dir()); err != nil {
			t.Error(err)
		}
	})
	if !strings.HasPrefix(s.Dir(), rootHome+"/data folder-") ||
		!strings.Contains(progress.String(), "may not enter "+private) ||
		!strings.Contains(progress.String(), "because PostgreSQL refuses root") {
		t.Errorf("folder %s, progress %q", s.Dir(), progress.String())
	}
	info, err := os.Stat(fmt.Sprintf("/proc/%d", s.PID()))
	if err != nil {
		t.Skip("no /proc here")
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); !ok || owner.Uid == 0 {
		t.Error("the server runs as root")
	}
}
