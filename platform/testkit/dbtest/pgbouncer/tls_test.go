package pgbouncer

import (
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// pgbouncer gets the TLS settings of the URL, and copies of the files.
func TestSecure(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"root.pem", "mine.pem", "mine.key"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := &Pooler{dir: "/p"}
	for query, want := range map[string][]string{
		"":                                 {"server_tls_sslmode = require"},
		"sslmode=disable&sslrootcert=/no":  {"server_tls_sslmode = disable"},
		"sslmode=require":                  {"server_tls_sslmode = require"},
		"sslmode=require&sslrootcert=ROOT": {"server_tls_ca_file = /p/ca", "server_tls_sslmode = verify-ca"},
		"sslmode=verify-full&sslrootcert=ROOT&sslcert=MINE&sslkey=KEY": {
			"server_tls_ca_file = /p/ca", "server_tls_cert_file = /p/cert", "server_tls_key_file = /p/key",
			"server_tls_sslmode = verify-full",
		},
	} {
		named := strings.NewReplacer("ROOT", dir+"/root.pem", "MINE", dir+"/mine.pem", "KEY", dir+"/mine.key")
		values, err := url.ParseQuery(named.Replace(query))
		if err != nil {
			t.Fatal(err)
		}
		files := map[string]string{}
		ini, err := p.secure(values, files)
		got := slices.Sorted(strings.Lines(ini))
		if err != nil || strings.Join(got, "") != strings.Join(want, "\n")+"\n" || len(files) != len(want)-1 {
			t.Errorf("%s: %v, files %v, %v; want %v", query, got, files, err, want)
		}
		for setting, text := range files {
			if want := map[string]string{"ca": "root.pem", "cert": "mine.pem", "key": "mine.key"}[setting]; text != want {
				t.Errorf("%s: the file of %s holds %q", query, setting, text)
			}
		}
	}
	missing := url.Values{"sslmode": {"verify-ca"}, "sslrootcert": {filepath.Join(dir, "none")}}
	if _, err := p.secure(missing, map[string]string{}); err == nil {
		t.Error("a missing file is no error")
	}
}
