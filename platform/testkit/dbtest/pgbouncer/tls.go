package pgbouncer

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// secure returns the part of the configuration for TLS to the server. It interprets the
// parameters of a database URL like the driver. It copies the certificates into files,
// because root's pgbouncer runs as another user, which may not be able to read the originals.
func (p *Pooler) secure(query url.Values, files map[string]string) (ini string, err error) {
	mode, root := cmp.Or(query.Get("sslmode"), "require"), query.Get("sslrootcert")
	if mode == "disable" {
		return "server_tls_sslmode = disable\n", nil
	}

	if mode == "require" && root != "" {
		mode = "verify-ca"
	}

	if mode != "require" && (root == "" || root == "system") {
		return "", errors.New("pgbouncer needs a file with the certificates to trust: name it by sslrootcert")
	}

	var lines strings.Builder
	_, _ = fmt.Fprintln(&lines, "server_tls_sslmode =", mode)
	for setting, path := range map[string]string{"ca": root, "cert": query.Get("sslcert"), "key": query.Get("sslkey")} {
		if path == "" {
			continue
		}

		text, err := os.ReadFile(path)
		if err != nil {
			return "", fmt.Errorf("read pgbouncer's TLS files: %w", err)
		}

		files[setting] = string(text)
		_, _ = fmt.Fprintf(&lines, "server_tls_%s_file = %s\n", setting, filepath.Join(p.dir, setting))
	}

	return lines.String(), nil
}
