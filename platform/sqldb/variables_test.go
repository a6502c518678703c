package sqldb_test

import (
	"io"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
)

// forward listens on IPv6's loopback, sends what arrives there to the server at upstream, and returns its port.
func forward(t *testing.T, upstream string) (port string) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "[::1]:0")
	if err != nil {
		if config.Environ()["CI"] != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // the test has ended
			}
			server, err := new(net.Dialer).DialContext(t.Context(), "tcp", upstream)
			if err != nil {
				_ = client.Close()
				continue
			}
			for _, pair := range [][2]net.Conn{{client, server}, {server, client}} {
				go func() {
					_, _ = io.Copy(pair[0], pair[1])
					_ = pair[0].Close()
				}()
			}
		}
	}()
	_, port, _ = net.SplitHostPort(listener.Addr().String())
	return port
}

// TestVariablesLeadToTheServer: the chart's URL names no server. The driver reads the variables, whose host may be an
// IPv6 address, in brackets or not; a URL may have one too. It sets variables of the process, so it is not parallel.
func TestVariablesLeadToTheServer(t *testing.T) {
	own, err := url.Parse(dbtest.Empty(t))
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimPrefix(own.Path, "/")
	password, _ := own.User.Password()
	const none = "postgres://?sslmode=disable"
	t.Setenv("PGPORT", forward(t, own.Host))
	t.Setenv("PGDATABASE", name)
	t.Setenv("PGUSER", own.User.Username())
	t.Setenv("PGPASSWORD", password)
	if err := config.Load(&config.Common{}, map[string]string{"DATABASE_URL": none}); err != nil {
		t.Errorf("the configuration refuses it: %v", err)
	}
	for _, c := range [][2]string{
		{"::1", none}, {"[::1]", none}, {"unused.invalid", "postgres://[::1]?sslmode=disable"},
	} {
		t.Setenv("PGHOST", c[0])
		db := openTraced(t, c[1])
		var found string
		err := db.GetContext(db.ctx, &found, `SELECT current_database()`)
		if err != nil || found != name {
			t.Errorf("PGHOST=%s, %s: the database is %q, want %q: %v", c[0], c[1], found, name, err)
			continue
		}
		db.request.End()
		for _, span := range db.recorder.Ended() {
			for _, a := range span.Attributes() {
				if a.Key == "db.namespace" && a.Value.AsString() == name {
					found = ""
				}
			}
		}
		if found != "" {
			t.Errorf("PGHOST=%s: no span names the database %s", c[0], name)
		}
	}
}
