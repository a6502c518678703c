package dbtest

import (
	"context"
	"crypto/x509"
	"database/sql"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/localpg"
)

// TLSServer starts a server for one test alone, as [Server] does, that refuses connections without
// TLS. The URL is the superuser's, with sslmode=verify-full.
func TLSServer(t testing.TB, changes ...func(*localpg.Options)) (own *localpg.Server, dsn string) {
	t.Helper()
	var certificate string
	own = Server(t, append(changes, func(o *localpg.Options) {
		certificate = filepath.Join(o.Dir, "certificate.pem")
		key := filepath.Join(o.Dir, "key.pem")
		if err := writeCertificate(certificate, key); err != nil {
			t.Fatalf("dbtest: %v", err)
		}
		maps.Copy(o.Settings, map[string]string{"ssl": "on", "ssl_cert_file": certificate, "ssl_key_file": key})
	})...)
	u, err := url.Parse(own.URL("postgres"))
	if err != nil {
		t.Fatal("dbtest: the server's URL cannot be read")
	}
	u.RawQuery = url.Values{"sslmode": {"verify-full"}, "sslrootcert": {certificate}}.Encode()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	if err := demandTLS(ctx, own, u.String()); err != nil {
		t.Fatalf("dbtest: %v", err)
	}
	return own, u.String()
}

// demandTLS makes the server refuse connections without TLS and returns when it does.
func demandTLS(ctx context.Context, own *localpg.Server, dsn string) error {
	const rules = "hostssl all all 127.0.0.1/32 scram-sha-256\n" //nolint:dupword // a row of columns
	if err := os.WriteFile(filepath.Join(own.Dir(), "data", "pg_hba.conf"), []byte(rules), 0o600); err != nil {
		return fmt.Errorf("write who may connect: %w", err)
	}
	err := onAdmin(ctx, dsn, func(conn *sql.Conn) error { return run(ctx, conn, "SELECT pg_reload_conf()") })
	for err == nil && onAdmin(ctx, own.URL("postgres"), func(*sql.Conn) error { return nil }) == nil {
		select {
		case <-ctx.Done():
			err = fmt.Errorf("the server still takes connections without TLS: %w", ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
	return err
}

// writeCertificate writes a self-signed certificate for 127.0.0.1 and its key, owned by the user that
// a server runs as.
func writeCertificate(certificate, key string) error {
	source := httptest.NewTLSServer(nil) // has a self-signed certificate for 127.0.0.1
	pair := source.TLS.Certificates[0]
	source.Close()
	encoded, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		return fmt.Errorf("encode the key: %w", err)
	}
	who, err := localpg.Unprivileged()
	if err != nil {
		return err
	}
	for path, block := range map[string]*pem.Block{
		certificate: {Type: "CERTIFICATE", Bytes: pair.Certificate[0]}, key: {Type: "PRIVATE KEY", Bytes: encoded},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
		if err := localpg.Own(who, path); err != nil {
			return err
		}
	}
	return nil
}
