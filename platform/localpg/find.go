package localpg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// BinVariable names the environment variable with the folder of initdb and postgres. When it is set,
// no other folder is searched.
const BinVariable = "ROWLOCK_POSTGRES_BIN"

// oldest is the first major version with client_connection_check_interval, without which the server
// carries out the waiting statement of a dead client later.
const oldest = 14

// ErrNotFound means that no usable server is installed.
var ErrNotFound = errors.New("no PostgreSQL server found")

// installation is a folder with the programs of one PostgreSQL version.
type installation struct {
	binDir       string
	major, minor int
}

// Find returns the folder of the newest installed PostgreSQL server (14 or later). It searches the
// folder named by BinVariable, or else PATH, the output of `pg_config --bindir`, and the usual
// folders of Debian, Fedora, Homebrew and others. environ is the environment, as config.Environ
// returns it. Without a usable server Find returns ErrNotFound with the unusable ones.
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
		return cmp.Or(b.major-a.major, b.minor-a.minor)
	})
	return found, nil
}

// candidates returns the folders to search, each once, those of the caller's environment first.
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

// systemFolders returns the folders where packages put the server's programs, most of them off the
// PATH.
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

// inspect returns the installation in dir, or an error that says why it cannot be used.
func inspect(ctx context.Context, dir string) (installation, error) {
	// Where dir holds links, their target has all of the programs, and is found only once.
	if target, err := filepath.EvalSymlinks(filepath.Join(dir, "postgres")); err == nil {
		if home := filepath.Dir(target); executable(filepath.Join(home, "initdb")) {
			dir = home
		}
	}
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
		return installation{}, fmt.Errorf("%s/postgres reports %q, which is no PostgreSQL", dir, line)
	}
	// The pattern matches digits only; a missing minor version (of a beta) counts as 0.
	major, _ := strconv.Atoi(parts[1])
	minor, _ := strconv.Atoi(parts[2])
	if major < oldest {
		return installation{}, fmt.Errorf("%s holds PostgreSQL %d, which is older than %d", dir, major, oldest)
	}
	return installation{binDir: dir, major: major, minor: minor}, nil
}

// output runs a program and returns the first line of its output.
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

// howToInstall is the advice for a machine without a server and without a network.
const howToInstall = "install one (`apt-get install postgresql` on Debian and Ubuntu, " +
	"`dnf install postgresql-server` on Fedora, `brew install postgresql@17` on macOS), " +
	"or set DATABASE_URL to a server of yours"
