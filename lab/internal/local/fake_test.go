package local

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rowlock/rowlock/platform/testkit/dbtest"
)

// fakeVariable makes the test binary play a service; its value is the part.
const fakeVariable = "ROWLOCK_FAKE_SERVICE"

func TestMain(m *testing.M) {
	if part := os.Getenv(fakeVariable); part != "" {
		os.Exit(fake(part))
	}
	goleak.VerifyTestMain(withDatabase{m})
}

// withDatabase runs the tests and then stops the database server that they used.
type withDatabase struct{ m *testing.M }

func (w withDatabase) Run() int { return dbtest.Main(w.m) }

// fake is the service that the tests start.
func fake(part string) int {
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	switch part {
	case "refuses":
		_, _ = fmt.Fprintln(os.Stderr, "fake: DATABASE_URL is required")
		return 1
	case "silent":
		<-term
		return 0
	}

	var ready atomic.Bool
	ready.Store(true)
	api := http.NewServeMux()
	admin := http.NewServeMux()
	admin.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if ready.Load() {
			return
		}
		http.Error(w, "not ready", http.StatusServiceUnavailable)
	})
	admin.HandleFunc("/set",
		func(_ http.ResponseWriter, r *http.Request) { ready.Store(r.URL.Query().Get("ready") == "true") })
	if part != "worker" {
		fakeListen("api", os.Getenv("HTTP_ADDR"), api)
	}
	fakeListen("internal", "127.0.0.1:0", http.NewServeMux()) // services may have more than two
	fakeListen("admin", os.Getenv("ADMIN_ADDR"), admin)
	<-term
	return 0
}

func fakeListen(server, addr string, h http.Handler) {
	var lc net.ListenConfig
	ln, err := lc.Listen(context.Background(), "tcp", addr)
	if err != nil {
		panic(err)
	}
	_, _ = fmt.Fprintf(os.Stderr, `{"level":"INFO","msg":"listening","server":%q,"addr":%q}`+"\n", server, ln.Addr())
	srv := &http.Server{Handler: h, ReadHeaderTimeout: time.Second}
	go func() { _ = srv.Serve(ln) }()
}

func fakeSpec(part string) Spec {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return Spec{Service: "fake", Path: self, Environ: map[string]string{fakeVariable: part}}
}
