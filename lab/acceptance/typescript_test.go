package acceptance

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	neturl "net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/rowlock/rowlock/client/counts"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
)

// forgetful loses every other answer: the service has applied the change, and its caller does not know.
type forgetful struct {
	next     http.RoundTripper
	answered atomic.Int64
}

func (f *forgetful) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := f.next.RoundTrip(req)
	if err != nil || f.answered.Add(1)%2 == 0 {
		return resp, err
	}
	return nil, errors.Join(io.ErrUnexpectedEOF, resp.Body.Close())
}

// TestTypeScriptClient makes the client of docs/clients.md, checks the types of its example and runs it against two
// replicas in turn. The first answer to each change is lost, and the repeat does not count again.
func TestTypeScriptClient(t *testing.T) {
	t.Parallel()
	if out, err := exec.CommandContext(t.Context(), "npm", "ping").CombinedOutput(); err != nil {
		t.Skipf("npm is not installed or reaches no registry: %v\n%s", err, out)
	}

	dsn := dbtest.Empty(t)
	var replicas []*neturl.URL
	for range 2 {
		replicas = append(replicas, &neturl.URL{Scheme: "http", Host: start(t, "counts", dsn, nil).Status().API})
	}

	var sent atomic.Int64
	transport := &forgetful{next: &http.Transport{}}
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(replicas[sent.Add(1)%2]) },
		Transport: transport,
		// It closes the connection.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	})
	t.Cleanup(proxy.Close)

	contract, err := filepath.Abs("../../services/counts/api/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if err := os.CopyFS(folder, os.DirFS("../../docs/clients/typescript")); err != nil {
		t.Fatal(err)
	}

	var out []byte
	for _, args := range [][]string{
		{"npm", "ci"},
		{"npx", "openapi-typescript", contract, "--output", "counts.ts"},
		{"npx", "tsc"},
		{"node", "out/example.js"},
	} {
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Dir = folder
		cmd.Env = append(cmd.Environ(), "COUNTS_URL="+proxy.URL)
		out, err = cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", args, err, out)
		}
	}

	if string(out) != "42\n" {
		t.Errorf("the example printed %q, want 42", out)
	}
	if n := transport.answered.Load(); n != 4 {
		t.Errorf("the replicas answered %d requests, want 4: two changes and a repeat of each", n)
	}
	c, err := counts.New(replicas[0].String(), options()...)
	if err != nil {
		t.Fatal(err)
	}
	if found, err := c.Get(t.Context(), "typescript"); err != nil || found.Value != 42 {
		t.Errorf("the count is %d, want 42: %v", found.Value, err)
	}
}
