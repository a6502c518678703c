package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	_ "github.com/lib/pq" // the driver that reads the server's settings
)

// speedSettings are the settings that decide how fast PostgreSQL commits; a figure without them means little.
func speedSettings() []string {
	return []string{
		"fsync", "synchronous_commit", "full_page_writes", "wal_sync_method", "commit_delay", "shared_buffers", "max_wal_size",
		"max_connections",
	}
}

func machine(ctx context.Context, databaseURL string) (found Machine, err error) {
	found = Machine{
		CPU: cpuModel(), Cores: runtime.NumCPU(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(),
		PostgreSQL: "(unknown)", Settings: map[string]string{},
	}

	if databaseURL == "" {
		return found, nil
	}

	db, err := sql.Open("postgres", databaseURL)
	if err != nil {
		return found, fmt.Errorf("read the server's settings: %w", err)
	}

	defer func() { err = errors.Join(err, db.Close()) }()

	conn, err := db.Conn(ctx) // pinned, as everywhere: database/sql repeats what it sends through *sql.DB as it sees fit
	if err != nil {
		return found, fmt.Errorf("read the server's settings: %w", err)
	}

	defer func() { err = errors.Join(err, conn.Close()) }()

	for _, name := range append(speedSettings(), "server_version") {
		var value string
		if err := conn.QueryRowContext(ctx, `SELECT current_setting($1)`, name).Scan(&value); err != nil {
			return found, fmt.Errorf("read the server's setting %s: %w", name, err)
		}

		found.Settings[name] = value
	}

	found.PostgreSQL = found.Settings["server_version"]
	delete(found.Settings, "server_version")

	return found, nil
}

// cpuModel falls back to the architecture where there is no /proc/cpuinfo with a name in it.
func cpuModel() string {
	raw, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}

	for line := range strings.Lines(string(raw)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}

	return runtime.GOARCH
}
