package localpg

import (
	"context"
	"database/sql"
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

	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

func TestLifecycle(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(folder(t), "deeper", "with space")
	// The caller's libpq variables have no effect on the server.
	s, progress := start(t, Options{Dir: dir, Environ: map[string]string{
		"PATH": "/usr/bin:/bin", "PGDATA": "/nonexistent", "PGPORT": "1", "PGOPTIONS": "-c nonsense=1",
		"LC_ALL": "xx_XX.nonsense", "LANG": "de_DE",
	}})
	for name, want := range map[string]string{
		"max_connections": "400", "listen_addresses": "127.0.0.1", "fsync": "off", "synchronous_commit": "on",
		"TimeZone": "UTC", "unix_socket_directories": "", "server_encoding": "UTF8",
	} {
		if got := text(t, s.URL("postgres"), "SHOW "+name); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
	if !strings.Contains(progress, "Making a PostgreSQL cluster") {
		t.Errorf("progress of a first start: %q", progress)
	}
	if info, err := os.Stat(dataDir(dir)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("data folder: %v %v, want 0700", info.Mode(), err)
	}
	if info, err := os.Stat(passwordFile(dir)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("password file: %v %v, want 0600", info.Mode(), err)
	}
	wrong := strings.Replace(s.URL("postgres"), s.password, "wrong", 1)
	if err := session(t, wrong, func(*sql.Conn) error { return nil }); err == nil {
		t.Error("a wrong password is let in")
	}

	write(t, s.URL("postgres"), "CREATE TABLE kept (n int)")
	none := func() error { return nil }
	crash := func() error { return s.Crash(t.Context()) }
	for name, end := range map[string]func() error{"Kill": s.Kill, "Crash": crash, "nothing": none} {
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

	_, err := Start(t.Context(), Options{Dir: dir})
	if !errors.Is(err, ErrInUse) {
		t.Errorf("a second start: %v, want ErrInUse", err)
	}
	wantSentence(t, err, dir, strconv.Itoa(os.Getpid()))

	port := s.Port()
	stop(t, s)
	stop(t, s) // a second time is no error
	if err := s.Restart(t.Context()); err == nil {
		t.Error("a server that was given up is restarted")
	}
	again, _ := start(t, Options{Dir: dir})
	if again.Port() != port {
		t.Errorf("port %d, want that of the last start, %d", again.Port(), port)
	}
	text(t, again.URL("postgres"), "SELECT count(*) FROM kept")
}

// The owner is killed, alone or with the guard: the server stops in order, and a start, which waits
// for that, finds everything in place.
func TestOwnerKilled(t *testing.T) {
	t.Parallel()
	for name, both := range map[string]bool{"alone": false, "with its guard": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := folder(t)
			cmd, url := owner(t, dir)
			write(t, url, "CREATE TABLE kept (n int)")
			pid := readNumber(postmasterFile(dir))
			if both {
				if err := syscall.Kill(guardOf(t, cmd.Process.Pid), syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
			}
			kill(t, cmd)
			s, progress := start(t, Options{Dir: dir})
			// The guard may have been faster than the start.
			if said := fmt.Sprintf("(process %d), left over", pid); both && !strings.Contains(progress, said) {
				t.Errorf("progress %q, want %q in it", progress, said)
			}
			text(t, s.URL("postgres"), "SELECT count(*) FROM kept")
			if log := readFile(s.LogFile()); strings.Contains(log, "automatic recovery in progress") {
				t.Error("the server was not shut down in order")
			}
		})
	}
}

// What a start may find: a port that was taken meanwhile, a stale postmaster.pid, half a cluster.
func TestStartAgain(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	// A start that was killed in the middle of initdb.
	if err := os.MkdirAll(filepath.Join(dir, "data.new", "base"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(passwordFile(dir), []byte("old\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, _ := start(t, Options{Dir: dir})
	write(t, s.URL("postgres"), "CREATE TABLE kept (n int)")

	// Another process takes the port while the server is down: Restart waits, because clients have the
	// address, and a start takes another port.
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	listener := listen(t, s.Port())
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if err := s.Restart(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("restart on a taken port: %v, want the deadline", err)
	}
	stop(t, s)
	old := s.Port()
	s, progress := start(t, Options{Dir: dir})
	if s.Port() == old || !strings.Contains(progress, "is taken: using another one") {
		t.Errorf("port %d, progress %q", s.Port(), progress)
	}
	closed(t, listener)

	// All processes were killed, as by a loss of power: a stale postmaster.pid is left. Its process id
	// belongs to another process, which is neither the server's parent nor itself: PostgreSQL would see
	// through that.
	if err := syscall.Kill(s.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-s.Done()
	lines := strings.SplitN(readFile(postmasterFile(dir)), "\n", 2)
	if len(lines) != 2 {
		t.Fatal("the test is worth nothing: no postmaster.pid is left")
	}
	stop(t, s)
	waittest.Eventually(t, "the server's children end", func() bool {
		lock, err := tryLock(runningFile(dir))
		return err == nil && lock.Close() == nil
	})
	stale := strconv.Itoa(os.Getppid()) + "\n" + lines[1]
	if err := os.WriteFile(postmasterFile(dir), []byte(stale), 0o600); err != nil {
		t.Fatal(err)
	}
	s, _ = start(t, Options{Dir: dir})
	text(t, s.URL("postgres"), "SELECT count(*) FROM kept")
}

func listen(t *testing.T, port int) net.Listener {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", fmt.Sprintf("127.0.0.1:%d", port))
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

// A start that cannot be says why. Fresh makes a new cluster, whatever was wrong with the old one.
func TestDamagedClusters(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Start(ctx, Options{Dir: dir, Settings: quick()}); err == nil {
		t.Error("a start within 50 ms: the test is worth nothing")
	}
	s, _ := start(t, Options{Dir: dir}) // succeeds all the same
	write(t, s.URL("postgres"), "CREATE TABLE t ()")
	stop(t, s)

	_, err := Start(t.Context(), Options{Dir: dir, Settings: map[string]string{"no_such_setting": "1"}})
	wantSentence(t, err, `unrecognized configuration parameter "no_such_setting"`, logFile(dir))
	version := filepath.Join(dataDir(dir), "PG_VERSION")
	if err := os.WriteFile(version, []byte("13\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Start(t.Context(), Options{Dir: dir})
	wantSentence(t, err, "was made by PostgreSQL 13", "install 13, or remove the folder")
	if err := errors.Join(os.Remove(passwordFile(dir)), os.WriteFile(version, []byte("15\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	_, err = Start(t.Context(), Options{Dir: dir})
	wantSentence(t, err, "the password", "is lost", dir)

	s, _ = start(t, Options{Dir: dir, Fresh: true})
	write(t, s.URL("postgres"), "CREATE TABLE t ()") // fails when it exists
}

// A temporary server makes its folder and removes it. Root's server runs as another user, and its data
// goes to a folder that this user can enter.
func TestTemporary(t *testing.T) {
	t.Parallel()
	parent := folder(t)
	if err := os.Chmod(parent, 0o700); err != nil {
		t.Fatal(err)
	}
	s, progress := start(t, Options{Parent: parent})
	if !exists(s.Dir()) {
		t.Errorf("no folder %s", s.Dir())
	}
	if os.Geteuid() == 0 {
		wantEmpty(t, parent)
		if !strings.HasPrefix(s.Dir(), rootHome+"/") || !strings.Contains(progress, "may not enter "+parent) ||
			!strings.Contains(progress, "because PostgreSQL refuses root") {
			t.Errorf("folder %s, progress %q", s.Dir(), progress)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if !s.user.MayEnter(ended, "/") {
			t.Error("after a cancelled start, a folder seems to be closed to the server's account")
		}
		var owner syscall.Stat_t
		if err := syscall.Stat(fmt.Sprintf("/proc/%d", s.PID()), &owner); err == nil && owner.Uid == 0 {
			t.Error("the server runs as root")
		}
	}
	stop(t, s)
	if exists(s.Dir()) {
		t.Errorf("%s is left", s.Dir())
	}
	wantEmpty(t, parent)
}
