package sqldb_test

import (
	"crypto/tls"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
)

// sslListener accepts connections that begin with an SSLRequest, and answers yes.
type sslListener struct{ net.Listener }

func (l sslListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		_, err = io.ReadFull(c, make([]byte, 8))
		if err == nil {
			_, err = c.Write([]byte("S"))
		}
		if err == nil {
			return c, nil
		}
		_ = c.Close() // the client has gone
	}
}

// tlsServer starts a server with TLS whose certificate has no known authority: no
// connection gets beyond the handshake. It returns its host:port and the file of its
// certificate, which is for 127.0.0.1 and example.com.
func tlsServer(t *testing.T) (addr, certificate string) {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	server.Listener = sslListener{server.Listener}
	server.TLS = &tls.Config{NextProtos: []string{"postgresql"}}
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.StartTLS()
	t.Cleanup(server.Close)
	certificate = filepath.Join(t.TempDir(), "server.crt")
	block := &pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}
	if err := os.WriteFile(certificate, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	return server.Listener.Addr().String(), certificate
}

func TestMisconfigured(t *testing.T) {
	t.Parallel()
	plain, maria := dbtest.Empty(t), dbtest.EmptyMariaDB(t) // their servers have no TLS
	secured, certificate := tlsServer(t)
	verify := "postgres://app@" + secured + "/x?sslmode=verify-"
	otherName := strings.Replace(verify, "127.0.0.1", "localhost", 1) // not in the certificate
	for name, tc := range map[string]struct {
		url  string
		want bool
	}{
		"no TLS on the server":         {strings.Replace(plain, "sslmode=disable", "sslmode=require", 1), true},
		"unknown authority":            {verify + "full", true},
		"unknown authority, verify-ca": {verify + "ca", true},
		"another host":                 {otherName + "full&sslrootcert=" + certificate, true},
		"root certificate missing":     {verify + "ca&sslrootcert=/nowhere/root.crt", true},
		"wrong password":               {strings.Replace(plain, "@", "wrong@", 1), true},
		"unknown database":             {strings.Replace(plain, "/rowlock_test", "/ghost_test", 1), true},
		"no server":                    {"postgres://app@127.0.0.1:1/x?sslmode=disable", false},
		"no socket yet":                {"postgres://app@/x?host=/nowhere", false},
		"MariaDB, wrong password":      {strings.Replace(maria, "@", "wrong@", 1), true},
		"MariaDB, unknown database":    {strings.Replace(maria, "/rowlock_test_", "/no_", 1), true},
		"MariaDB, no TLS":              {strings.Replace(maria, "tls=false", "tls=true", 1), true},
		"MariaDB, no server":           {"mysql://root@127.0.0.1:1/x", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := open(t, tc.url).Ping(t.Context())
			if err == nil || sqldb.Misconfigured(err) != tc.want {
				t.Errorf("got %v, want misconfigured %t", err, tc.want)
			}
		})
	}
	for _, err := range []error{nil, io.EOF, errors.New("something else")} {
		if sqldb.Misconfigured(err) {
			t.Errorf("%v counts as misconfigured", err)
		}
	}
}
