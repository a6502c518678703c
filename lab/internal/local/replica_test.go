package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

func start(t *testing.T, s Spec, n int) *Set {
	t.Helper()
	set, err := Start(t.Context(), s, n)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	t.Cleanup(func() {
		if err := set.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return set
}

// tell posts to a fake service's admin listener.
func tell(t *testing.T, r *Replica, path, body string) {
	t.Helper()
	url := "http://" + r.Status().Admin + path
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
}

// alive reports whether there is such a process that is no zombie.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := bytes.Cut(stat, []byte(") "))
	return err == nil && len(rest) > 0 && rest[0] != 'Z'
}

func TestReadinessDecidesWhichReplicasAreListed(t *testing.T) {
	t.Parallel()
	set := start(t, fakeSpec("serve"), 2)
	first, second := set.Replicas()[0], set.Replicas()[1]
	a, b := first.Status(), second.Status()
	if list := set.Ready(); len(list) != 2 || list[0] != a || list[1] != b || a.API == b.API || a.Name != "fake-1" ||
		a.Starts != 1 {
		t.Errorf("listed are %+v", list)
	}
	tell(t, first, "/set?ready=false", "")
	waittest.Eventually(t, "the one that is not ready is unlisted", func() bool {
		list := set.Ready()
		return len(list) == 1 && list[0].Name == "fake-2"
	})
	tell(t, first, "/set?ready=true", "")
	waittest.Eventually(t, "it is listed again", func() bool { return len(set.Ready()) == 2 })
	if a, b := first.Status(), second.Status(); a.Starts != 1 || a.Flips != 1 || b.Flips != 0 {
		t.Errorf("%+v and %+v, want one flip of the first", a, b)
	}
}

func TestStartFailsWithTheReason(t *testing.T) {
	t.Parallel()
	missing := fakeSpec("silent")
	missing.Path = "/nonexistent/counts"
	for want, spec := range map[string]Spec{
		"ended before it was ready: exit status 1 (fake: DATABASE_URL is required)": fakeSpec("refuses"),
		missing.Path:       missing,
		"context canceled": fakeSpec("silent"),
	} {
		ctx, cancel := context.WithCancel(t.Context())
		if strings.HasPrefix(want, "context") {
			cancel()
		}
		if _, err := Start(ctx, spec, 2); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want it to contain %q", err, want)
		}
		cancel()
	}
}

// A worker has no API: its admin listener alone is awaited. A set stops all replicas in order, a paused one too.
func TestStopEndsAllBySIGTERM(t *testing.T) {
	t.Parallel()
	s := fakeSpec("worker")
	s.Command = "work"
	s.Say = func(sentence string) { t.Errorf("it says %s", sentence) }
	set, err := Start(t.Context(), s, 2)
	if err != nil {
		t.Fatal(err)
	}
	a, b := set.Replicas()[0], set.Replicas()[1]
	pids := []int{a.Status().PID, b.Status().PID}
	if list := set.Ready(); len(list) != 0 || !a.Status().Ready {
		t.Errorf("workers take requests: %+v", list)
	}
	if err := errors.Join(b.Pause(), set.Stop(t.Context()), set.Stop(t.Context())); err != nil {
		t.Fatalf("stop: %v", err)
	}
	if alive(pids[0]) || alive(pids[1]) || a.Status().Ready || a.Kill() == nil {
		t.Errorf("after the stop there is %v, %+v", pids, a.Status())
	}
}

// A replica that is terminated is unlisted at once and started again, and its end is no flip.
func TestATerminatedReplicaIsStartedAgain(t *testing.T) {
	t.Parallel()
	one := start(t, fakeSpec("serve"), 1).Replicas()[0]
	if err := one.Terminate(); err != nil {
		t.Fatal(err)
	}
	if one.Status().Ready && one.Status().Starts == 1 {
		t.Error("a terminated replica is still listed")
	}
	waittest.Eventually(t, "it is listed again", func() bool { return one.Status().Starts == 2 && one.Status().Ready })
	if flips := one.Status().Flips; flips != 0 {
		t.Errorf("its end counts as %d flips", flips)
	}
}

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
