package dbtest

import (
	"context"
	"crypto/x509"
	"database/sql"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/localpg"
	"github.com/rowlock/rowlock/platform/localpg/guard"
)

// TLSServer starts a server for this test only, like [Server], that refuses connections without TLS.
// The URL is the superuser's, with sslmode=verify-full.
func TLSServer(t testing.TB, settings ...map[string]string) (own *localpg.Server, dsn string) {
	t.Helper()
	own = Server(t, settings...)
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()

	data := filepath.Join(own.Dir(), "data")
	if err := errors.Join(configureTLS(data), demandTLS(ctx, own.URL("postgres"))); err != nil {
		t.Fatalf("dbtest: %v", err)
	}

	u, err := url.Parse(own.URL("postgres"))
	if err != nil {
		t.Fatal("dbtest: the server's URL cannot be read")
	}
	u.RawQuery = url.Values{"sslmode": {"verify-full"}, "sslrootcert": {filepath.Join(data, "server.crt")}}.Encode()
	return own, u.String()
}

// configureTLS writes into the data folder who may connect, and a self-signed certificate for
// 127.0.0.1 with its key, in the files where the server looks for them.
func configureTLS(data string) error {
	source := httptest.NewTLSServer(nil) // has a suitable certificate
	pair := source.TLS.Certificates[0]
	source.Close()

	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		return fmt.Errorf("encode the key: %w", err)
	}

	user, err := guard.Unprivileged()
	if err != nil {
		return err
	}

	certificate := &pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}
	for name, text := range map[string]string{
		"pg_hba.conf": "hostssl all all 127.0.0.1/32 scram-sha-256\n",
		"server.crt":  string(pem.EncodeToMemory(certificate)),
		"server.key":  string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})),
	} {
		if err := user.WriteFile(filepath.Join(data, name), text); err != nil {
			return err
		}
	}
	return nil
}

// demandTLS makes the server read what configureTLS wrote, and returns when the server refuses
// connections without TLS. plain is a URL without TLS.
func demandTLS(ctx context.Context, plain string) error {
	err := onAdmin(ctx, plain, func(conn *sql.Conn) error {
		return errors.Join(run(ctx, conn, "ALTER SYSTEM SET ssl = on"), run(ctx, conn, "SELECT pg_reload_conf()"))
	})
	for err == nil && onAdmin(ctx, plain, func(*sql.Conn) error { return nil }) == nil {
		select {
		case <-ctx.Done():
			err = fmt.Errorf("the server still takes connections without TLS: %w", ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
	return err
}
