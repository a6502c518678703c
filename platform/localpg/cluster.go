package localpg

import (
	"bytes"
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

// rootHome is where root's clusters go when the account of the server may not enter the folder that was asked for.
const rootHome = "/var/lib/rowlock"

// home makes the folder of a cluster and returns it. It is o.Dir, except for root with a folder that the server's account may not
// enter (a clone below /root, say): then it is a folder of its own below /var/lib/rowlock.
func home(o Options, who *account) (string, error) {
	if err := makeFolder(o.Dir); err != nil {
		return "", fmt.Errorf("make the data folder: %w", err)
	}
	// Symbolic links are resolved once, here: the account's way to the folder is the real one.
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
	if stillBlocked, err := who.canEnter(other); err != nil || stillBlocked != "" {
		return "", errors.Join(fmt.Errorf("the user %s, as whom PostgreSQL runs for root, may enter neither %s nor %s",
			who.name, blocked, stillBlocked), err)
	}
	o.sayf("The user %s, as whom PostgreSQL runs for root, may not enter %s: the data goes to %s", who.name, blocked, other)
	if o.Temporary {
		// Nobody asks for the empty folder again. What is in it, if anything, is not ours, and stays.
		_ = os.Remove(dir)
	}
	return other, nil
}

// forget removes the cluster, for initialise to make a new one. The caller holds the lock, and no server runs.
func forget(o Options, dir string) error {
	if clusterMajor(dir) != 0 {
		o.sayf("Removing the PostgreSQL cluster in %s", dir)
	}
	if err := errors.Join(os.RemoveAll(dataDir(dir)), os.RemoveAll(passwordFile(dir))); err != nil {
		return fmt.Errorf("remove the old cluster: %w", err)
	}
	return nil
}

// makeFolder makes a folder, unless it is there, that the server's account can enter whatever our umask; the cluster in it is 0700.
func makeFolder(path string) error {
	if exists(path) {
		return nil
	}
	if err := os.MkdirAll(path, 0o755); err != nil { //nolint:gosec // as the comment says
		return err //nolint:wrapcheck // names the folder already; the caller says what it is for
	}
	return os.Chmod(path, 0o755) //nolint:gosec,wrapcheck // as above
}

// clusterMajor is the major version of the cluster in dir; 0 when there is none yet.
func clusterMajor(dir string) int {
	major, err := strconv.Atoi(strings.TrimSpace(readFile(filepath.Join(dataDir(dir), "PG_VERSION"))))
	if err != nil {
		return 0
	}
	return major
}

// initialise makes the cluster unless it is there, and returns the superuser's password.
func initialise(
	ctx context.Context, o Options, dir, binDir string, who *account, lock *os.File,
) (password string, err error) {
	if clusterMajor(dir) != 0 {
		password = strings.TrimSpace(readFile(passwordFile(dir)))
		if password == "" {
			return "", fmt.Errorf("the password of the PostgreSQL cluster in %s is lost: remove the folder and start anew", dir)
		}
		return password, nil
	}

	o.sayf("Making a PostgreSQL cluster in %s", dir)
	password = rand.Text()
	if err := writePrivate(passwordFile(dir), password+"\n", who); err != nil {
		return "", err
	}

	// Under another name until it is complete: a cluster that is half made must not be taken for one.
	unfinished := dataDir(dir) + ".new"
	if err := os.RemoveAll(unfinished); err != nil {
		return "", fmt.Errorf("remove an unfinished cluster: %w", err)
	}
	if err := os.Mkdir(unfinished, 0o700); err != nil {
		return "", fmt.Errorf("make the cluster's folder: %w", err)
	}
	if err := who.own(unfinished); err != nil {
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
	// Should we be killed, initdb goes on: the lock stays taken until it is done.
	cmd.ExtraFiles = []*os.File{lock}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: who.credential()}
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("initdb: %w: %s", err, lastLine(said.String()))
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
	return who.own(path)
}

// lastLine is the last line that is not blank.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

// rememberedPort is the port of the last start; 0 when there was none.
func rememberedPort(dir string) int {
	port, err := strconv.Atoi(strings.TrimSpace(readFile(portFile(dir))))
	if err != nil || port < 1 || port > 65535 {
		return 0
	}
	return port
}

// choosePort returns the port for a first attempt. fixed says that the caller wants this one and no other.
func choosePort(ctx context.Context, o Options, dir string) (port int, fixed bool, err error) {
	if o.Port != 0 {
		if !portFree(ctx, o.Port) {
			return 0, true, fmt.Errorf("port %d of 127.0.0.1 is taken: choose another for PostgreSQL, or 0 for any free one", o.Port)
		}
		return o.Port, true, nil
	}
	if port = rememberedPort(dir); port != 0 {
		if portFree(ctx, port) {
			return port, false, nil
		}
		o.sayf("Port %d, where PostgreSQL was last time, is taken: another one is used", port)
	}
	port, err = FreePort(ctx)
	return port, false, err
}
