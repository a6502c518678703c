package faultproxy_test

import (
	"crypto/tls"
	"crypto/x509"
	"net/url"
	"os"
	"testing"

	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest/faultproxy"
)

// The server demands TLS, the proxy speaks it, and reads along all the same; a server that it
// cannot trust gets nothing.
func TestTLS(t *testing.T) {
	t.Parallel()
	_, dsn := dbtest.TLSServer(t)
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(u.Query().Get("sslrootcert"))
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(text)
	start := func(config *tls.Config) *faultproxy.Proxy {
		proxy, err := faultproxy.Start(u.Host, config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(proxy.Close)
		return proxy
	}
	proxy := start(&tls.Config{RootCAs: trusted, ServerName: u.Hostname(), MinVersion: tls.VersionTLS12})
	b := bench{proxy: proxy, direct: dbtest.Dial(t, dsn), through: dbtest.Dial(t, proxy.DSN(dsn))}
	b.do(t, "CREATE TABLE c (n int NOT NULL)")
	b.do(t, "INSERT INTO c VALUES (0)")
	var secure bool
	conn := pin(t, b.through)
	err = conn.QueryRowContext(t.Context(), "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()").Scan(&secure)
	if err != nil || !secure {
		t.Errorf("between proxy and server: TLS %t, %v", secure, err)
	}
	proxy.Cut(faultproxy.AfterStatement, faultproxy.FIN, faultproxy.Matching("UPDATE"))
	if _, err := conn.ExecContext(t.Context(), increase); err == nil {
		t.Error("no error, though the reply was lost")
	}
	if n := b.n(t); n != 1 || proxy.Cuts() != 1 {
		t.Errorf("n = %d after %d cuts, want 1 and 1", n, proxy.Cuts())
	}
	for name, config := range map[string]*tls.Config{
		"without TLS":        nil,
		"an unknown signer":  {RootCAs: x509.NewCertPool(), ServerName: u.Hostname(), MinVersion: tls.VersionTLS12},
		"another one's name": {RootCAs: trusted, ServerName: "elsewhere", MinVersion: tls.VersionTLS12},
	} {
		if err := dbtest.Dial(t, start(config).DSN(dsn)).PingContext(t.Context()); err == nil {
			t.Errorf("%s: the server is talked to", name)
		}
	}
}
