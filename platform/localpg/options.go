package localpg

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/rowlock/rowlock/platform/config"
)

// Superuser is the role that owns a cluster made here.
const Superuser = "rowlock"

// RepositoryVariable names the environment variable with the address to download PostgreSQL from instead of Maven Central.
const RepositoryVariable = "ROWLOCK_POSTGRES_REPOSITORY"

// Options say where and how a private server runs. Only Dir is required.
type Options struct {
	// Dir is the folder that holds everything of this server: the cluster, its password, its log. It is made when it does not exist.
	// One process at a time may use it.
	Dir string
	// Temporary says that Dir is worth nothing without this process: when the process dies without Stop, its guard removes Dir.
	// Stop leaves it; see Remove.
	Temporary bool
	// Fresh says that a cluster that is there is removed first, with all its data.
	Fresh bool
	// Port on 127.0.0.1; 0 takes the port of the last start when it is free, else any free one.
	Port int
	// Settings go over PostgreSQL's defaults and over max_connections=400, as in postgresql.conf: {"fsync": "off"}.
	Settings map[string]string
	// BinDir is the folder of initdb and postgres; empty: Find, and if that finds nothing, a download.
	BinDir string
	// Repository is where a download comes from, laid out like Maven Central; empty: RepositoryVariable's value, else Maven Central.
	Repository string
	// Progress takes one line per step that may take seconds; nil: silence.
	Progress io.Writer
	// Environ is the environment that programs are looked for in, and from which the server inherits what is not PostgreSQL's;
	// nil: the process's own.
	Environ map[string]string

	// folders stands in for systemFolders in tests of a machine without PostgreSQL.
	folders []string
}

var settingName = regexp.MustCompile(`^[a-z][a-z0-9_.]*$`)

// prepared checks the options and fills in what was left out.
func (o Options) prepared() (Options, error) {
	if o.Dir == "" {
		return o, errors.New("localpg: Options.Dir is empty")
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return o, fmt.Errorf("localpg: data folder: %w", err)
	}
	o.Dir = dir
	if o.Port < 0 || o.Port > 65535 {
		return o, fmt.Errorf("localpg: port %d is not between 0 and 65535", o.Port)
	}
	for _, name := range slices.Sorted(maps.Keys(o.Settings)) {
		if !settingName.MatchString(name) {
			return o, fmt.Errorf("localpg: %q is not the name of a PostgreSQL setting", name)
		}
		switch name {
		case "port", "listen_addresses", "unix_socket_directories", "data_directory", "hba_file":
			return o, fmt.Errorf("localpg: the setting %s is not free: a private server listens on 127.0.0.1 alone", name)
		}
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	if o.Environ == nil {
		o.Environ = config.Environ()
	}
	if o.folders == nil {
		o.folders = systemFolders()
	}
	if o.Repository == "" {
		o.Repository = o.Environ[RepositoryVariable]
	}
	if o.Repository == "" {
		o.Repository = mavenCentral
	}
	return o, nil
}

// sayf writes one line of progress. Nobody to read it is no reason to stop.
func (o Options) sayf(format string, args ...any) {
	_, _ = fmt.Fprintf(o.Progress, format+"\n", args...)
}

// serverEnv is the environment of initdb and postgres: the caller's without libpq's variables, which would redirect initdb or the
// server (PGDATA, PGPORT, PGOPTIONS), and with messages in English, which start reads.
func (o Options) serverEnv() []string {
	var env []string
	for _, name := range slices.Sorted(maps.Keys(o.Environ)) {
		if isLocaleOrPG(name) {
			continue
		}
		env = append(env, name+"="+o.Environ[name])
	}
	return append(env, "LC_ALL=C", "TZ=UTC")
}

func isLocaleOrPG(name string) bool {
	switch {
	case len(name) > 2 && name[:2] == "PG", len(name) > 3 && name[:3] == "LC_":
		return true
	default:
		return name == "LANG" || name == "LANGUAGE" || name == "TZ"
	}
}

// command is the server's command line without the program's name.
func (o Options) command(dataDir string, port int) []string {
	settings := map[string]string{
		"max_connections": "400",
		"timezone":        "UTC",
		"log_timezone":    "UTC",
	}
	maps.Copy(settings, o.Settings)
	args := make([]string, 0, 8+2*len(settings))
	args = append(args,
		"-D", dataDir,
		"-c", "listen_addresses=127.0.0.1",
		"-c", fmt.Sprintf("port=%d", port),
		// The path of a socket may have 103 bytes on some systems, that of a data folder more; and a socket in /tmp would be open to all.
		"-c", "unix_socket_directories=",
	)
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		args = append(args, "-c", name+"="+settings[name])
	}
	return args
}

// The files in Options.Dir.
func dataDir(dir string) string      { return filepath.Join(dir, "data") }
func passwordFile(dir string) string { return filepath.Join(dir, "password") }
func portFile(dir string) string     { return filepath.Join(dir, "port") }
func logFile(dir string) string      { return filepath.Join(dir, "server.log") }
func lockFile(dir string) string     { return filepath.Join(dir, "lock") }

// exists says whether there is something at path.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
