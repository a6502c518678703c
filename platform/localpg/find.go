package localpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// BinVariable names the environment variable that points at the folder of initdb and postgres; when it is set, nothing else is looked at.
const BinVariable = "ROWLOCK_POSTGRES_BIN"

// oldest is the first major version with client_connection_check_interval, without which a dead client's statement that waits for a
// lock is carried out later.
const oldest = 14

// ErrNotFound is returned by Find when no usable server is installed.
var ErrNotFound = errors.New("no PostgreSQL server found")

// installation is a folder with the programs of one PostgreSQL version.
type installation struct {
	binDir       string
	major, minor int
}

// Find returns the folder of the newest PostgreSQL server (14 or later) that is installed here: the folder named by BinVariable, or
// on PATH, or what `pg_config --bindir` says, or one of the usual folders of Debian, Fedora, Homebrew and others. environ is the
// environment to look in, as config.Environ returns it. When there is none the error is ErrNotFound with what was seen.
func Find(ctx context.Context, environ map[string]string) (binDir string, err error) {
	found, err := find(ctx, environ, systemFolders())
	if err != nil {
		return "", err
	}
	return found[0].binDir, nil
}

// find returns every usable installation, newest first, at least one.
func find(ctx context.Context, environ map[string]string, folders []string) ([]installation, error) {
	if dir := environ[BinVariable]; dir != "" {
		one, err := inspect(ctx, dir)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", BinVariable, err)
		}
		return []installation{one}, nil
	}

	var found []installation
	var unusable []string
	for _, dir := range candidates(ctx, environ, folders) {
		one, err := inspect(ctx, dir)
		switch {
		case err == nil:
			found = append(found, one)
		case exists(filepath.Join(dir, "postgres")):
			unusable = append(unusable, err.Error())
		}
	}
	if len(found) == 0 {
		if len(unusable) > 0 {
			return nil, fmt.Errorf("%w (%s)", ErrNotFound, strings.Join(unusable, "; "))
		}
		return nil, ErrNotFound
	}
	slices.SortStableFunc(found, func(a, b installation) int {
		if a.major != b.major {
			return b.major - a.major
		}
		return b.minor - a.minor
	})
	return found, nil
}

// candidates lists the folders to look into, each once, those of the caller's environment first.
func candidates(ctx context.Context, environ map[string]string, folders []string) []string {
	path := filepath.SplitList(environ["PATH"])
	dirs := slices.Clone(path)
	for _, dir := range path {
		if tool := filepath.Join(dir, "pg_config"); executable(tool) {
			if out, err := output(ctx, tool, "--bindir"); err == nil {
				dirs = append(dirs, out)
			}
		}
	}
	for _, pattern := range folders {
		matches, err := filepath.Glob(pattern)
		if err != nil {
			continue
		}
		dirs = append(dirs, matches...)
	}

	var unique []string
	for _, dir := range dirs {
		if filepath.IsAbs(dir) && !slices.Contains(unique, filepath.Clean(dir)) {
			unique = append(unique, filepath.Clean(dir))
		}
	}
	return unique
}

// systemFolders are where packages put the server's programs, most of them off the PATH.
func systemFolders() []string {
	return []string{
		"/usr/lib/postgresql/*/bin",        // Debian, Ubuntu
		"/usr/pgsql-*/bin",                 // Fedora, RHEL: the PostgreSQL project's packages
		"/usr/lib64/pgsql/bin", "/usr/bin", // Fedora's own, Arch
		"/usr/lib/postgresql*/bin",                           // openSUSE
		"/usr/libexec/postgresql*",                           // Alpine
		"/opt/homebrew/opt/postgresql*/bin",                  // Homebrew on Apple silicon
		"/usr/local/opt/postgresql*/bin",                     // Homebrew on Intel
		"/home/linuxbrew/.linuxbrew/opt/postgresql*/bin",     // Homebrew on Linux
		"/Applications/Postgres.app/Contents/Versions/*/bin", // Postgres.app
		"/usr/local/pgsql/bin", "/usr/local/bin",             // built from source; FreeBSD
	}
}

var versionLine = regexp.MustCompile(`\(PostgreSQL\) (\d+)(?:\.(\d+))?`)

// inspect says which server is in dir, or why none can be used.
func inspect(ctx context.Context, dir string) (installation, error) {
	// Where dir holds links, the folder behind them has all of the programs, and is the same for every way that leads to it.
	if target, err := filepath.EvalSymlinks(filepath.Join(dir, "postgres")); err == nil {
		if home := filepath.Dir(target); executable(filepath.Join(home, "initdb")) {
			return inspectFolder(ctx, home)
		}
	}
	return inspectFolder(ctx, dir)
}

func inspectFolder(ctx context.Context, dir string) (installation, error) {
	for _, name := range []string{"postgres", "initdb"} {
		if !executable(filepath.Join(dir, name)) {
			return installation{}, fmt.Errorf("no program %s in %s", name, dir)
		}
	}
	line, err := output(ctx, filepath.Join(dir, "postgres"), "--version")
	if err != nil {
		return installation{}, err
	}
	parts := versionLine.FindStringSubmatch(line)
	if parts == nil {
		return installation{}, fmt.Errorf("%s/postgres calls itself %q, which is no PostgreSQL", dir, line)
	}
	// The pattern lets digits through and nothing else; a minor version that is missing (a beta) counts as 0.
	major, _ := strconv.Atoi(parts[1])
	minor, _ := strconv.Atoi(parts[2])
	if major < oldest {
		return installation{}, fmt.Errorf("%s holds PostgreSQL %d, which is older than %d", dir, major, oldest)
	}
	return installation{binDir: dir, major: major, minor: minor}, nil
}

// output runs a program that only prints, and returns its first line.
func output(ctx context.Context, program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	//nolint:gosec // a program found under the name of a PostgreSQL tool, asked for its version or folder
	out, err := exec.CommandContext(ctx, program, args...).Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", program, strings.Join(args, " "), err)
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimSpace(line), nil
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

// howToInstall is the end of the one sentence for somebody who has neither a server nor a network.
func howToInstall() string {
	if runtime.GOOS == "darwin" {
		return "install one with `brew install postgresql@17`, or set DATABASE_URL to a server of yours"
	}
	return "install one (`apt-get install postgresql` on Debian and Ubuntu, `dnf install postgresql-server` on Fedora), " +
		"or set DATABASE_URL to a server of yours"
}
