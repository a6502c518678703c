package localpg

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rowlock/rowlock/platform/localpg/guard"
)

// rootHome holds root's clusters when the server's account may not enter the requested folder.
const rootHome = "/var/lib/rowlock"

// home makes the folder of a cluster and returns it: a new one for a temporary server, else o.Dir;
// but a folder below /var/lib/rowlock when root runs it and the server's account may not enter that
// (a clone below /root, for example).
func home(ctx context.Context, o Options, user *guard.User) (dir string, err error) {
	if o.Dir == "" {
		sweep(ctx)
		dir, err = guard.TempFolder(o.Parent, tempPattern)
	} else {
		if dir, err = filepath.Abs(o.Dir); err == nil {
			err = makeFolder(dir)
		}
	}
	if err != nil {
		return "", fmt.Errorf("make the data folder: %w", err)
	}
	if user.MayEnter(ctx, dir) {
		return dir, nil
	}

	sum := sha256.Sum256([]byte(dir))
	other := filepath.Join(rootHome, filepath.Base(dir)+"-"+hex.EncodeToString(sum[:4]))
	if err := errors.Join(makeFolder(rootHome), makeFolder(other)); err != nil {
		return "", fmt.Errorf("the user %s, as whom PostgreSQL runs for root, may not enter %s: %w", user.Name, dir, err)
	}
	o.sayf("The user %s, as whom PostgreSQL runs for root, may not enter %s: the data goes to %s", user.Name, dir, other)
	_ = os.Remove(dir) // fails, as it should, when the folder holds other files
	return other, nil
}

// makeFolder makes a folder unless it exists. The server's account can enter it, whatever our
// umask; the cluster in it is 0700.
func makeFolder(path string) error {
	if exists(path) {
		return nil
	}
	if err := os.MkdirAll(path, 0o755); err != nil { //nolint:gosec // as the comment says
		return err //nolint:wrapcheck // names the folder already; the caller says what it is for
	}
	return os.Chmod(path, 0o755) //nolint:gosec,wrapcheck // as above
}

const (
	// tempPattern names the folders of temporary servers.
	tempPattern = "rowlock-postgres-*"
	// sweepAfter is the age from which they are looked at.
	sweepAfter = 24 * time.Hour
)

// sweep removes the temporary servers of processes that were killed together with their guards a day
// ago or more. It ignores those of other users, and what it cannot remove, such as one in use.
func sweep(ctx context.Context) {
	for _, parent := range guard.TempFolders() {
		folders, err := filepath.Glob(filepath.Join(parent, tempPattern))
		if err != nil {
			return
		}
		for _, dir := range folders {
			info, err := os.Lstat(dir)
			if err != nil || time.Since(info.ModTime()) < sweepAfter {
				continue
			}
			// The parent is open to all users: root must not follow the files of another one.
			if stat, ok := info.Sys().(*syscall.Stat_t); !ok || int(stat.Uid) != os.Geteuid() || !info.IsDir() {
				continue
			}
			if locks, err := acquire(ctx, Options{}.withDefaults(), dir); err == nil {
				_ = os.RemoveAll(dir)
				locks.release()
			}
		}
	}
}

// clusterMajor returns the major version of the cluster in dir; 0 when there is none yet.
func clusterMajor(dir string) int { return readNumber(filepath.Join(dataDir(dir), "PG_VERSION")) }

// initialise makes the cluster unless it exists, and learns the superuser's password.
func (s *Server) initialise(ctx context.Context) error {
	if clusterMajor(s.dir) != 0 {
		s.password = strings.TrimSpace(readFile(passwordFile(s.dir)))
		if s.password == "" {
			return fmt.Errorf("the password of the PostgreSQL cluster in %s is lost: remove the folder and start anew", s.dir)
		}
		return nil
	}

	s.opts.sayf("Making a PostgreSQL cluster in %s", s.dir)
	s.password = rand.Text()
	if err := s.user.WriteFile(passwordFile(s.dir), s.password+"\n"); err != nil {
		return err
	}
	return s.build(func(unfinished string) error {
		// The C locale is on every system and orders by bytes.
		args := append(s.noSync(), "-D", unfinished, "-U", Superuser, "--pwfile="+passwordFile(s.dir),
			"--auth=scram-sha-256", "--encoding=UTF8", "--locale=C")
		return s.run(ctx, "initdb", args...)
	})
}

// build makes the cluster's folder, which fill gets under another name until it is complete, so that a program that is
// killed leaves no half-made cluster.
func (s *Server) build(fill func(unfinished string) error) error {
	unfinished := dataDir(s.dir) + ".new"
	if err := errors.Join(os.RemoveAll(unfinished), os.Mkdir(unfinished, 0o700), s.user.Own(unfinished)); err != nil {
		return fmt.Errorf("make the cluster's folder: %w", err)
	}
	if err := fill(unfinished); err != nil {
		return err
	}
	if err := os.Rename(unfinished, dataDir(s.dir)); err != nil {
		return fmt.Errorf("put the new cluster in its place: %w", err)
	}
	return nil
}

// noSync returns the option by which PostgreSQL's programs write without fsync, where the server does so.
func (s *Server) noSync() []string {
	if s.opts.Settings["fsync"] == "off" {
		return []string{"--no-sync"}
	}
	return nil
}

// run runs one of PostgreSQL's programs to its end.
func (s *Server) run(ctx context.Context, name string, args ...string) error {
	if !executable(filepath.Join(s.bin.binDir, name)) {
		return fmt.Errorf("%s has no program %s (a downloaded PostgreSQL has not): install PostgreSQL", s.bin.binDir, name)
	}
	if err := guard.Run(ctx, s.program(name, args...), logFile(s.dir)); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// readFile returns a file's text, or "" when it cannot be read, which callers treat like an empty
// file.
func readFile(path string) string {
	text, err := os.ReadFile(path) //nolint:gosec // files of the data folder
	if err != nil {
		return ""
	}
	return string(text)
}

// readNumber returns the number in the first line of a file; 0 when there is none.
func readNumber(path string) int {
	line, _, _ := strings.Cut(readFile(path), "\n")
	n, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		return 0
	}
	return n
}
