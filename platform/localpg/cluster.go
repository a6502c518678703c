package localpg

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// rootHome holds root's clusters when the server's account may not enter the requested folder.
const rootHome = "/var/lib/rowlock"

// home makes the folder of a cluster and returns it: o.Dir, or a folder below /var/lib/rowlock when
// root runs it and the server's account may not enter o.Dir (a clone below /root, for example).
func home(o Options, who *account) (string, error) {
	if err := makeFolder(o.Dir); err != nil {
		return "", fmt.Errorf("make the data folder: %w", err)
	}
	// Symbolic links are resolved here, because canEnter checks each folder of the real path.
	dir, err := filepath.EvalSymlinks(o.Dir)
	if err != nil {
		return "", fmt.Errorf("data folder: %w", err)
	}
	blocked, err := who.canEnter(dir)
	if err != nil || blocked == "" {
		return dir, err
	}

	sum := sha256.Sum256([]byte(dir))
	other := filepath.Join(rootHome, filepath.Base(dir)+"-"+hex.EncodeToString(sum[:4]))
	if err := errors.Join(makeFolder(rootHome), makeFolder(other)); err != nil {
		return "", fmt.Errorf("the user %s, as whom PostgreSQL runs for root, may not enter %s: %w", who.name, blocked, err)
	}
	o.sayf("The user %s, as whom PostgreSQL runs for root, may not enter %s: the data goes to %s",
		who.name, blocked, other)
	if o.Temporary {
		_ = os.Remove(dir) // fails, as it should, when the folder holds other files
	}
	return other, nil
}

// removeCluster removes the cluster, for initialise to make a new one. The caller holds the lock,
// and no server runs.
func removeCluster(o Options, dir string) error {
	if clusterMajor(dir) != 0 {
		o.sayf("Removing the PostgreSQL cluster in %s", dir)
	}
	if err := errors.Join(os.RemoveAll(dataDir(dir)), os.RemoveAll(passwordFile(dir))); err != nil {
		return fmt.Errorf("remove the old cluster: %w", err)
	}
	return nil
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

// clusterMajor returns the major version of the cluster in dir; 0 when there is none yet.
func clusterMajor(dir string) int { return readNumber(filepath.Join(dataDir(dir), "PG_VERSION")) }

// initialise makes the cluster unless it exists, and returns the superuser's password.
func initialise(
	ctx context.Context, o Options, dir, binDir string, who *account, lock *os.File,
) (password string, err error) {
	if clusterMajor(dir) != 0 {
		password = strings.TrimSpace(readFile(passwordFile(dir)))
		if password == "" {
			return "", fmt.Errorf("the password of the PostgreSQL cluster in %s is lost: remove the folder and start anew",
				dir)
		}
		return password, nil
	}

	o.sayf("Making a PostgreSQL cluster in %s", dir)
	password = rand.Text()
	if err := writePrivate(passwordFile(dir), password+"\n", who); err != nil {
		return "", err
	}

	// Under another name until it is complete, so that a killed initdb leaves no half-made cluster.
	unfinished := dataDir(dir) + ".new"
	if err := errors.Join(os.RemoveAll(unfinished), os.Mkdir(unfinished, 0o700)); err != nil {
		return "", fmt.Errorf("make the cluster's folder: %w", err)
	}
	if err := Own(who.credential(), unfinished); err != nil {
		return "", err
	}
	args := []string{
		"-D", unfinished, "-U", Superuser, "--pwfile=" + passwordFile(dir), "--auth=scram-sha-256",
		// The C locale is on every system and orders by bytes.
		"--encoding=UTF8", "--locale=C",
	}
	if o.Settings["fsync"] == "off" {
		args = append(args, "--no-sync")
	}
	//nolint:gosec // initdb of the installation that was found or configured
	cmd := exec.CommandContext(ctx, filepath.Join(binDir, "initdb"), args...)
	cmd.Env = o.serverEnv()
	cmd.Dir = "/"
	// When this process is killed, initdb goes on, and the lock stays taken until it ends.
	cmd.ExtraFiles = []*os.File{lock}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: who.credential()}
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("initdb: %w: %s", err, lastLine(string(out)))
	}
	if err := os.Rename(unfinished, dataDir(dir)); err != nil {
		return "", fmt.Errorf("put the new cluster in its place: %w", err)
	}
	return password, nil
}

// writePrivate writes a file that only who (the caller, when nil) and root can read.
func writePrivate(path, text string, who *account) error {
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return Own(who.credential(), path)
}

// lastLine returns the last line that is not blank.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
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
