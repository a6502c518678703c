package sqldb_test

import (
	"crypto/tls"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/sqldb"
)

// tlsServer is the beginning of a server with TLS, whose certificate nobody has
// signed: no connection gets beyond the handshake. It returns its host:port and
// the file of its certificate.
func tlsServer(t *testing.T) (addr, certificate string) {
	t.Helper()
	source := httptest.NewTLSServer(nil) // has a certificate for 127.0.0.1 and example.com
	config := source.TLS.Clone()
	config.NextProtos = []string{"postgresql"}
	raw := source.Certificate().Raw
	source.Close()
	certificate = filepath.Join(t.TempDir(), "server.crt")
	if err := os.WriteFile(certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			// SSLRequest is eight bytes, S is yes. What follows fails on the client's side.
			_, err = io.ReadFull(c, make([]byte, 8))
			if err == nil {
				_, err = c.Write([]byte("S"))
			}
			if err == nil {
				secured := tls.Server(c, config)
				_, _ = secured.Read(make([]byte, 1))
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	}()
	t.Cleanup(func() {
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
		<-done
	})
	return listener.Addr().String(), certificate
}

func TestMisconfigured(t *testing.T) {
	t.Parallel()
	plain := dbtest.Empty(t) // its server has no TLS
	secured, certificate := tlsServer(t)
	otherName := strings.Replace(secured, "127.0.0.1", "localhost", 1) // not in the certificate
	closed, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := closed.Addr().String()
	if err = closed.Close(); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		url  string
		want bool
	}{
		"no TLS on the server":         {strings.Replace(plain, "sslmode=disable", "sslmode=require", 1), true},
		"unknown authority":            {"postgres://app@" + secured + "/x?sslmode=verify-full", true},
		"unknown authority, verify-ca": {"postgres://app@" + secured + "/x?sslmode=verify-ca", true},
		"another host":                 {"postgres://app@" + otherName + "/x?sslmode=verify-full&sslrootcert=" + certificate, true},
		"root certificate missing":     {"postgres://app@" + secured + "/x?sslmode=verify-ca&sslrootcert=/nowhere/root.crt", true},
		"wrong password":               {strings.Replace(plain, "@", "wrong@", 1), true},
		"unknown database":             {strings.Replace(plain, "/rowlock_test", "/ghost_test", 1), true},
		"nobody there":                 {"postgres://app@" + nobody + "/x?sslmode=disable", false},
		"no socket yet":                {"postgres://app@/x?host=/nowhere", false},
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
