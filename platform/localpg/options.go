package localpg

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rowlock/rowlock/platform/config"
)

// Superuser is the role that owns a cluster made here.
const Superuser = "rowlock"

// RepositoryVariable names the environment variable with the URL to download PostgreSQL
// from, instead of Maven Central. It must have the layout of Maven Central.
const RepositoryVariable = "ROWLOCK_POSTGRES_REPOSITORY"

// Options configure a private server. The zero value configures a temporary one.
type Options struct {
	// Dir is the folder with everything of this server: the cluster, its password and its
	// log. It is created if it does not exist. One process at a time may use it. If Dir is
	// empty, the server is temporary: Start creates a folder, and the server's end removes
	// it, through Stop or the guard.
	Dir string
	// Parent is where to create the folder of a temporary server; empty: in memory if there is
	// room, else where the system keeps temporary files.
	Parent string
	// Fresh removes an existing cluster first, with all its data.
	Fresh bool
	// Settings are the server's settings as in postgresql.conf, such as {"fsync": "off"}. They
	// override PostgreSQL's defaults and max_connections=400.
	Settings map[string]string
	// Progress receives one line for each step that may take seconds; nil: none.
	Progress io.Writer
	// Environ is the environment, which is searched for programs and passed to the server
	// without PostgreSQL's variables; nil: the process's.
	Environ map[string]string
}

// withDefaults returns the options with the defaults filled in.
func (o Options) withDefaults() Options {
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	if o.Environ == nil {
		o.Environ = config.Environ()
	}
	return o
}

// sayf writes one line of progress and ignores errors of the writer.
func (o Options) sayf(format string, args ...any) {
	_, _ = fmt.Fprintf(o.Progress, format+"\n", args...)
}

// serverEnv returns the environment of initdb and postgres: the caller's, without libpq's
// variables (PGDATA, PGPORT, PGOPTIONS), which would redirect them. Messages are in
// English, because package guard reads them.
func (o Options) serverEnv() []string {
	var env []string
	for _, name := range slices.Sorted(maps.Keys(o.Environ)) {
		libpq, locale := strings.HasPrefix(name, "PG"), strings.HasPrefix(name, "LC_") || strings.HasPrefix(name, "LANG")
		if !libpq && !locale && name != "TZ" {
			env = append(env, name+"="+o.Environ[name])
		}
	}
	return append(env, "LC_ALL=C", "TZ=UTC")
}

// command returns the server's command line without the program's name.
func (o Options) command(dataDir string, port int) []string {
	settings := map[string]string{"max_connections": "400", "timezone": "UTC", "log_timezone": "UTC"}
	maps.Copy(settings, o.Settings)

	args := make([]string, 0, 8+2*len(settings))
	args = append(args,
		"-D", dataDir,
		"-c", "listen_addresses=127.0.0.1",
		"-c", fmt.Sprintf("port=%d", port),
		// A socket's path may have at most 103 bytes on some systems, a data folder's may
		// have more, and a socket in /tmp would be open to everybody.
		"-c", "unix_socket_directories=",
	)
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		args = append(args, "-c", name+"="+settings[name])
	}
	return args
}

// The files in Options.Dir.
func dataDir(dir string) string        { return filepath.Join(dir, "data") }
func postmasterFile(dir string) string { return filepath.Join(dataDir(dir), "postmaster.pid") }
func passwordFile(dir string) string   { return filepath.Join(dir, "password") }
func upstreamFile(dir string) string   { return filepath.Join(dir, "pgpass") }
func portFile(dir string) string       { return filepath.Join(dir, "port") }
func logFile(dir string) string        { return filepath.Join(dir, "server.log") }
func runningFile(dir string) string    { return filepath.Join(dir, "running") }
func lockFile(dir string) string       { return filepath.Join(dir, "lock") }

// exists reports whether there is a file or folder at path.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
