package acceptance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rowlock/rowlock/client/payments"
	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/lab/internal/local/localtest"
	"github.com/rowlock/rowlock/lab/internal/services"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/waittest"
)

// oneTransaction is the last revision whose payments hold their row while the processor works.
const oneTransaction = "809d445fff7b5212130f50e23feb7b10097520a0"

// builtAt returns a folder with binaries of services, built from an earlier revision of this repository. A clone
// without that revision, a shallow one, skips the test.
func builtAt(t *testing.T, revision string, names ...string) (bin string) {
	t.Helper()
	root := t.TempDir()
	archive := exec.CommandContext(t.Context(), "sh", "-c", `git archive "$1" | tar -x -C "$2"`, "sh", revision, root)
	archive.Dir = "../.."
	if err := exec.CommandContext(t.Context(), "git", "cat-file", "-e", revision+"^{commit}").Run(); err != nil {
		t.Skipf("this clone has no history (git fetch --unshallow): revision %s cannot be built", revision)
	}
	if out, err := archive.CombinedOutput(); err != nil {
		t.Fatalf("unpack %s: %v\n%s", revision, err, out)
	}
	return built(t, root, names)
}

// built builds those services that a source tree has, by the tags of make build, whose packages are in Go's cache, and
// without what only a debugger reads.
func built(t *testing.T, root string, names []string) (bin string) {
	t.Helper()
	bin = filepath.Join(root, "bin")
	for _, name := range names {
		if !exists(filepath.Join(root, "services", name)) {
			continue
		}
		err := local.Build(t.Context(), root, name, filepath.Join(bin, name), t.Output(),
			"-tags=grpcnotrace", "-ldflags=-s -w")
		if err != nil {
			t.Fatal(err)
		}
	}
	return bin
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// TestPaymentsUpgrade replaces replicas of an earlier release, whose payment is one transaction, by new ones, which
// migrate the schema, while callers pay: two with each key, at once and by different replicas. No request fails, and
// each key has one payment, one charge and one answer.
func TestPaymentsUpgrade(t *testing.T) {
	t.Parallel()
	s, err := services.Named(services.Payments)
	if err != nil {
		t.Fatal(err)
	}
	dsn := dbtest.Empty(t)
	slow := map[string]string{"PROCESSOR_LATENCY": "30ms"}
	run := func(name, path string) (*local.Set, []*payments.Client) {
		set := localtest.Start(t, 2, local.Spec{Service: name, Path: path}, dsn, s.Environ, slow)
		var clients []*payments.Client
		for _, replica := range set.Replicas() {
			clients = append(clients, openPayments(t, replica))
		}
		return set, clients
	}
	old, oldClients := run("old", filepath.Join(builtAt(t, oneTransaction, services.Payments), services.Payments))
	u := upgrade{}
	u.clients.Store(&oldClients)

	ctx, stop := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	const pairs, enough = 8, 100
	for range pairs {
		callers.Go(func() {
			for again := true; again; {
				again = u.pay(context.WithoutCancel(ctx)) && ctx.Err() == nil
			}
		})
	}
	paid := func(who string) {
		from := u.paid.Load()
		waittest.Eventually(t, who+" pay", func() bool { return u.paid.Load() > from+enough || u.failed() != nil })
	}
	paid("old replicas")
	_, newClients := run("new", localtest.Binary(t, services.Payments))
	all := slices.Concat(newClients, oldClients)
	u.clients.Store(&all)
	paid("old and new replicas")
	u.clients.Store(&newClients)
	if err := old.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	paid("new replicas")
	stop()
	callers.Wait()
	if err := u.failed(); err != nil {
		t.Error(err)
	}
	n := int(u.keys.Load())
	wantLedger(t, dbtest.Dial(t, dsn), "upgraded", n, n, 0)
	t.Logf("%d keys, two requests each", n)
}

// upgrade is the load of the test.
type upgrade struct {
	clients    atomic.Pointer[[]*payments.Client]
	keys, paid atomic.Int64

	mu  sync.Mutex
	err error // the first one
}

// pay pays with a new key by two replicas at once, and returns false when one of them failed.
func (u *upgrade) pay(ctx context.Context) bool {
	n, clients := u.keys.Add(1), *u.clients.Load()
	var answers [2]payments.Payment
	var replays [2]bool
	var errs [2]error
	var both sync.WaitGroup
	for i := range answers {
		client := clients[(int(n)+i)%len(clients)]
		both.Go(func() {
			// A request that waits longer than LOCK_WAIT is to be repeated.
			for again := true; again; again = errors.Is(errs[i], payments.ErrProcessing) {
				answers[i], replays[i], errs[i] = client.Create(ctx, fmt.Sprint("upgrade-", n), services.Ride("upgrade"))
			}
		})
	}
	both.Wait()
	err := errors.Join(errs[:]...)
	if err == nil && (answers[0] != answers[1] || replays[0] == replays[1]) {
		err = fmt.Errorf("key %d was answered %+v, replayed %v", n, answers, replays)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.err == nil {
		u.err = err
	}
	u.paid.Add(1)
	return u.err == nil
}

func (u *upgrade) failed() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.err
}
