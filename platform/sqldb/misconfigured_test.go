package sqldb_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
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
	"github.com/rowlock/rowlock/platform/testkit/waittest"
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

// tlsServer starts a server with TLS whose certificate, for 127.0.0.1 and example.com, has no known authority. It says
// nothing after the handshake. It returns its host:port and the files of the certificate and its key.
func tlsServer(t *testing.T, clients tls.ClientAuthType) (addr, certificate, key string) {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	server.Listener = sslListener{server.Listener}
	server.TLS = &tls.Config{NextProtos: []string{"postgresql"}, ClientAuth: clients}
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.StartTLS()
	t.Cleanup(server.Close)

	own, err := x509.MarshalPKCS8PrivateKey(server.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	encoded := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	certificate = write(t, "server.crt", encoded, 0o600)
	key = write(t, "server.key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: own}), chartMode())
	return server.Listener.Addr().String(), certificate, key
}

// chartMode is the mode with which the chart mounts a key: for root and its group, which the driver accepts of root's
// files alone.
func chartMode() os.FileMode {
	if os.Geteuid() == 0 {
		return 0o440
	}
	return 0o400
}

// write makes a file with this mode, whatever the umask is.
func write(t *testing.T, name string, content []byte, mode os.FileMode) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	if err := errors.Join(os.WriteFile(path, content, 0o600), os.Chmod(path, mode)); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestMisconfigured(t *testing.T) {
	t.Parallel()
	plain, maria := dbtest.Empty(t), dbtest.EmptyMariaDB(t) // their servers have no TLS
	secured, certificate, _ := tlsServer(t, tls.NoClientCert)
	verify := "postgres://app@" + secured + "/x?sslmode=verify-"
	demanding, root, key := tlsServer(t, tls.RequireAnyClientCert)
	demanding = "postgres://app@" + demanding + "/x?sslmode=verify-full&sslrootcert=" + root
	mine := demanding + "&sslcert=" + root + "&sslkey="
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
		"client certificate missing":   {demanding, true},
		"client key for all":           {mine + write(t, "client.key", []byte("any"), 0o444), true},
		"client key missing":           {mine + "/nowhere/client.key", true},
		"client certificate accepted":  {mine + key + "&connect_timeout=1", false},
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
			db := open(t, tc.url)
			// A connection that the server resets before its alert was read is tried again, as at a start.
			waittest.Eventually(t, fmt.Sprintf("misconfigured is %t", tc.want), func() bool {
				err := db.Ping(t.Context())
				return err != nil && sqldb.Misconfigured(err) == tc.want
			})
		})
	}
	for _, err := range []error{nil, io.EOF, errors.New("something else")} {
		if sqldb.Misconfigured(err) {
			t.Errorf("%v counts as misconfigured", err)
		}
	}
}
