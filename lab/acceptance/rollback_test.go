package acceptance

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/lab/internal/local/localtest"
	"github.com/rowlock/rowlock/lab/internal/targets"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// TestRollback upgrades each service from this tree to the release that follows it, whose schema has one more
// migration, rolls it back, and upgrades it again, under one load. Meanwhile a replica of this tree is evicted, so that
// it starts on the newer schema beside new ones. No request fails, and the sums are exact.
func TestRollback(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), "next")
	if out, err := exec.CommandContext(t.Context(), "../../hack/upgraded-tree", root).CombinedOutput(); err != nil {
		t.Fatalf("upgraded-tree: %v\n%s", err, out)
	}
	next := built(t, root)

	for _, s := range targets.All() {
		this := filepath.Dir(localtest.Binary(t, s.Name))
		for _, engine := range s.Engines {
			t.Run(s.Name+"/"+engine, func(t *testing.T) {
				t.Parallel()
				upgradeAndBack(t, s, database(t, engine), this, next)
			})
		}
	}
}

// built builds the services of a source tree, and returns their folder.
func built(t *testing.T, root string) (bin string) {
	t.Helper()
	bin = filepath.Join(root, "bin")
	for _, name := range targets.Names() {
		if err := local.Build(t.Context(), root, name, filepath.Join(bin, name), t.Output()); err != nil {
			t.Fatal(err)
		}
	}
	return bin
}

// upgradeAndBack runs the service from the folders this and next.
func upgradeAndBack(t *testing.T, s targets.Service, dsn, this, next string) {
	t.Helper()
	balancer, err := local.NewBalancer(t.Context(), s.Name, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = balancer.Stop(context.WithoutCancel(t.Context())) }) // it has no callers any more
	now := startRelease(t, s, dsn, this)
	balancer.To(now.serve)
	finish := drive(t, targets.Target{Service: s.Name, URL: balancer.URL()})
	now.answers(t)

	upgraded := startRelease(t, s, dsn, next) // it migrates
	evicted := now.serve.Replicas()[0]
	if err := evicted.Terminate(); err != nil {
		t.Fatal(err)
	}
	waittest.Eventually(t, "the evicted replica starts again", func() bool {
		status := evicted.Status()
		return status.Ready && status.Starts == 2
	})
	now.answers(t)

	replace := func(by release) {
		balancer.To(by.serve)
		now.stop(t)
		by.answers(t)
		now = by
	}
	replace(upgraded)
	replace(startRelease(t, s, dsn, this))
	replace(startRelease(t, s, dsn, next))
	if report := finish(); report.Failed() > 0 || report.Fault != "" {
		t.Errorf("%+v", report)
	} else {
		t.Logf("%d requests, none failed; %d are stored", report.Acknowledged, report.Stored)
	}
}

// release is two replicas of a service, and a worker where it has workers.
type release struct{ serve, work *local.Set }

func startRelease(t *testing.T, s targets.Service, dsn, bin string) (r release) {
	t.Helper()
	spec := local.Spec{Service: s.Name, Path: filepath.Join(bin, s.Name)}
	r.serve = localtest.Start(t, 2, spec, dsn, s.Environ)
	if s.Worker != "" {
		spec.Command = s.Worker
		r.work = localtest.Start(t, 1, spec, dsn, s.Environ)
	}
	return r
}

func (r release) stop(t *testing.T) {
	t.Helper()
	for _, set := range []*local.Set{r.serve, r.work} {
		if set == nil {
			continue
		}
		if err := set.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// answers waits until each replica has answered some requests since its start.
func (r release) answers(t *testing.T) {
	t.Helper()
	const some = 20
	for _, replica := range r.serve.Replicas() {
		waittest.Eventually(t, replica.Name()+" answers", func() bool {
			n, err := local.Metric(t.Context(), replica.Status().Admin, "http_server_request_duration_seconds_count")
			return err == nil && n >= some
		})
	}
}

// drive sends a load until finish is called, which returns what it met.
func drive(t *testing.T, target targets.Target) (finish func() *targets.Report) {
	t.Helper()
	load := targets.Load{Target: target, Rate: 100, Clients: 8}
	stop, done := make(chan struct{}), make(chan *targets.Report, 1)
	go func() {
		report, err := targets.Drive(t.Context(), load, stop)
		if err != nil {
			report = &targets.Report{Fault: err.Error()}
		}
		done <- report
	}()
	return func() *targets.Report {
		close(stop)
		return <-done
	}
}
