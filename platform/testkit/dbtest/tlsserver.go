package dbtest

import (
	"crypto/x509"
	"encoding/pem"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/rowlock/rowlock/platform/localpg"
	"github.com/rowlock/rowlock/platform/localpg/guard"
)

// TLSServer starts a server for this test only, like [Server], that refuses connections without TLS.
// The URL is the superuser's, with sslmode=verify-full.
func TLSServer(t testing.TB, settings ...map[string]string) (own *localpg.Server, dsn string) {
	t.Helper()
	dir, err := guard.TempFolder("", "rowlock-tls-*")
	if err != nil {
		t.Fatalf("dbtest: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // after the server's end

	file := func(name string) string { return filepath.Join(dir, name) }
	writeTLSFiles(t, file)
	own = Server(t, append(settings, map[string]string{
		"ssl": "on", "ssl_cert_file": file("server.crt"), "ssl_key_file": file("server.key"), "hba_file": file("hba"),
	})...)

	u, err := url.Parse(own.URL("postgres"))
	if err != nil {
		t.Fatal("dbtest: the server's URL cannot be read")
	}
	u.RawQuery = url.Values{"sslmode": {"verify-full"}, "sslrootcert": {file("server.crt")}}.Encode()
	return own, u.String()
}

// writeTLSFiles writes a self-signed certificate for 127.0.0.1 with its key, and who may connect.
func writeTLSFiles(t testing.TB, file func(name string) string) {
	t.Helper()
	source := httptest.NewTLSServer(nil) // has a suitable certificate
	pair := source.TLS.Certificates[0]
	source.Close()

	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatalf("dbtest: encode the key: %v", err)
	}
	user, err := guard.Unprivileged()
	if err != nil {
		t.Fatalf("dbtest: %v", err)
	}

	for name, text := range map[string][]byte{
		"hba":        []byte("hostssl all all 127.0.0.1/32 scram-sha-256\n"),
		"server.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}),
		"server.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
	} {
		if err := user.WriteFile(file(name), string(text)); err != nil {
			t.Fatalf("dbtest: %v", err)
		}
	}
}
