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
	"time"

	"github.com/rowlock/rowlock/platform/localpg/guard"
)

// BinVariable names the environment variable with the folder of initdb and postgres. If it is set, no
// other folder is searched.
const BinVariable = "ROWLOCK_POSTGRES_BIN"

// oldest is the first major version with client_connection_check_interval. Without it the server
// would later execute the waiting statement of a dead client. Upstream support has ended, but it works.
const oldest = 14

// ErrNotFound means that no usable server is installed.
var ErrNotFound = errors.New("no PostgreSQL server found")

// installation is a folder with the programs of one PostgreSQL version.
type installation struct {
	binDir       string
	major, minor int
}

// Find returns the folder of the newest installed PostgreSQL server (14 or later). It searches the
// folder in BinVariable, or else PATH and the usual folders of Debian, Fedora, Homebrew and others.
// environ is the environment, from config.Environ. If there is no usable server, Find returns
// ErrNotFound with the unusable ones.
func Find(ctx context.Context, environ map[string]string) (binDir string, err error) {
	found, err := find(ctx, environ, systemFolders())
	if err != nil {
		return "", err
	}
	return found[0].binDir, nil
}

// programs returns the installation that runs the cluster in dir: the cluster's major version, or the
// newest one for a new cluster.
func programs(ctx context.Context, o Options, dir string, user *guard.User) (bin installation, err error) {
	want := clusterMajor(dir)
	found, err := find(ctx, o.Environ, systemFolders())
	switch {
	case err == nil:
		bin = found[max(0, slices.IndexFunc(found, func(one installation) bool { return one.major == want }))]
	case errors.Is(err, ErrNotFound) && (want == 0 || want == fetchedMajor):
		bin, err = fetch(ctx, o)
	case errors.Is(err, ErrNotFound):
		err = fmt.Errorf("the cluster in %s was made by PostgreSQL %d, which is not installed any more: "+
			"install it, or remove the folder", dir, want)
	}
	if err != nil {
		return bin, err
	}

	// Without the cluster's version the newest one was chosen above.
	if want != 0 && bin.major != want {
		return bin, fmt.Errorf("the cluster in %s was made by PostgreSQL %d, but %s holds %d: "+
			"install %d, or remove the folder", dir, want, bin.binDir, bin.major, want)
	}

	if !user.MayEnter(ctx, bin.binDir) {
		return bin, fmt.Errorf("the user %s, as whom PostgreSQL runs for root, may not enter %s", user.Name, bin.binDir)
	}
	return bin, nil
}

// find returns every usable installation, newest first, at least one. It searches PATH and the folders,
// which are patterns for [filepath.Glob].
func find(ctx context.Context, environ map[string]string, folders []string) ([]installation, error) {
	if dir := environ[BinVariable]; dir != "" {
		one, err := inspect(ctx, dir)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", BinVariable, err)
		}
		return []installation{one}, nil
	}

	dirs := filepath.SplitList(environ["PATH"])
	for _, pattern := range folders {
		matches, err := filepath.Glob(pattern)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", pattern, err)
		}
		dirs = append(dirs, matches...)
	}

	var found []installation
	missing := ErrNotFound
	for _, dir := range dirs {
		if !filepath.IsAbs(dir) || !exists(filepath.Join(dir, "postgres")) {
			continue
		}
		one, err := inspect(ctx, dir)
		if err != nil {
			missing = fmt.Errorf("%w; %w", missing, err)
			continue
		}
		found = append(found, one)
	}
	if len(found) == 0 {
		return nil, missing
	}

	slices.SortStableFunc(found, func(a, b installation) int {
		return cmp.Or(b.major-a.major, b.minor-a.minor)
	})
	return found, nil
}

// systemFolders returns the folders where packages install the server's programs, most of them outside
// the PATH.
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

// inspect returns the installation in dir, or an error that says why it is unusable.
func inspect(ctx context.Context, dir string) (installation, error) {
	// If dir holds links, use their target: it has all programs, and is then found only once.
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

	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	line, err := exec.CommandContext(ctx, filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return installation{}, fmt.Errorf("%s/postgres --version: %w", dir, err)
	}

	parts := versionLine.FindSubmatch(line)
	if parts == nil {
		return installation{}, fmt.Errorf("%s/postgres reports %q, which is no PostgreSQL", dir, line)
	}

	// The pattern matches only digits; a missing minor version (of a beta) counts as 0.
	major, _ := strconv.Atoi(string(parts[1]))
	minor, _ := strconv.Atoi(string(parts[2]))
	if major < oldest {
		return installation{}, fmt.Errorf("%s holds PostgreSQL %d, which is older than %d", dir, major, oldest)
	}
	return installation{binDir: dir, major: major, minor: minor}, nil
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}
