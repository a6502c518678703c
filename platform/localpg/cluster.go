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

	"github.com/rowlock/rowlock/platform/localpg/guard"
)

// rootHome holds root's clusters if the server's account may not enter the requested folder.
const rootHome = "/var/lib/rowlock"

// home creates the folder of a cluster and returns it: o.Dir, or a new folder for a temporary server. It
// returns a folder below /var/lib/rowlock instead if root runs the server and the server's account may
// not enter the former (a clone below /root, for example).
func home(ctx context.Context, o Options, user *guard.User) (dir string, err error) {
	if o.Dir == "" {
		dir, err = guard.TempFolder(o.Parent, "rowlock-postgres-*")
	} else {
		dir, err = filepath.Abs(o.Dir)
		if err == nil {
			err = makeFolder(dir)
		}
	}
	if err != nil {
		return "", fmt.Errorf("make the data folder: %w", err)
	}
	if user.MayEnter(ctx, dir) {
		return dir, nil
	}

	// The name contains the requested folder's path, so that clones do not share a cluster.
	sum := sha256.Sum256([]byte(dir))
	other := filepath.Join(rootHome, filepath.Base(dir)+"-"+hex.EncodeToString(sum[:4]))
	if err := errors.Join(makeFolder(rootHome), makeFolder(other)); err != nil {
		return "", fmt.Errorf("the user %s, as whom PostgreSQL runs for root, may not enter %s: %w", user.Name, dir, err)
	}
	o.sayf("The user %s, as whom PostgreSQL runs for root, may not enter %s: the data goes to %s", user.Name, dir, other)
	_ = os.Remove(dir) // fails if the folder holds other files, as it should
	return other, nil
}

// makeFolder creates a folder unless it exists. The server's account can enter it whatever our umask;
// the cluster in it has mode 0700.
func makeFolder(path string) error {
	if exists(path) {
		return nil
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	return os.Chmod(path, 0o755)
}

// clusterMajor returns the major version of the cluster in dir; 0 if there is none.
func clusterMajor(dir string) int { return readNumber(filepath.Join(dataDir(dir), "PG_VERSION")) }

// initialise creates the cluster unless it exists, and reads or creates the superuser's password.
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
		// Every system has the C locale. It orders by bytes.
		args := append(s.noSync(), "-D", unfinished, "-U", Superuser, "--pwfile="+passwordFile(s.dir),
			"--auth=scram-sha-256", "--encoding=UTF8", "--locale=C")
		return s.run(ctx, "initdb", args...)
	})
}

// build creates the cluster's folder. fill works under another name until the cluster is complete, so that a killed
// program leaves no unfinished cluster.
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

// noSync returns the option that makes PostgreSQL's programs skip fsync, if the server skips it.
func (s *Server) noSync() []string {
	if s.opts.Settings["fsync"] == "off" {
		return []string{"--no-sync"}
	}
	return nil
}

// run runs one of PostgreSQL's programs to its end.
func (s *Server) run(ctx context.Context, name string, args ...string) error {
	if !executable(filepath.Join(s.bin.binDir, name)) {
		return fmt.Errorf("%s lacks the program %s, like a downloaded PostgreSQL: install PostgreSQL", s.bin.binDir, name)
	}
	if err := guard.Run(ctx, s.program(name, args...), logFile(s.dir)); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// readFile returns a file's text, or "" if it cannot be read, which callers treat like an empty file.
func readFile(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(text)
}

// readNumber returns the number in the first line of a file; 0 if there is none.
func readNumber(path string) int {
	line, _, _ := strings.Cut(readFile(path), "\n")
	n, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		return 0
	}
	return n
}
