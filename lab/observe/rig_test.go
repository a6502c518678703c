package observe

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lib/pq"
	"golang.org/x/sync/errgroup"

	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/lab/internal/prometheus"
	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/localpg"
)

// The flags of `make pictures`.
//
//nolint:gochecknoglobals // flags
var (
	pictures = flag.String("pictures", "", "the `folder` to draw the overview into")
	healthy  = flag.Duration("healthy", 0, "how long the load goes on before something is broken")
	between  = flag.Duration("between", 0, "how long it goes on between two faults, and five times that at the end")
)

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }

const (
	chart = "../../charts/rowlock"
	// release and namespace are what the chart would be installed as.
	release   = "rowlock"
	namespace = "shop"
	// interval is how often Prometheus scrapes and looks at the rules; the chart says 30 s.
	interval = time.Second
	// perService is how many replicas of each there are.
	perService = 2
)

// names are those of the services.
func names() []string { return []string{"counts", "events", "iidy", "payments", "pyggpot"} }

// timeouts are shorter than the defaults, so that a test of seconds sees them run out. A lease of pyggpot must be able to run out
// while its holder waits for a row, and a batch of iidy be slower than RowlockBatchesSlow bears.
func timeouts(service string) map[string]string {
	if service == "pyggpot" || service == "iidy" {
		return map[string]string{
			"DB_LOCK_TIMEOUT": "4s", "DB_STATEMENT_TIMEOUT": "5s", "REQUEST_TIMEOUT": "7s", "SHUTDOWN_TIMEOUT": "8s", "LOCK_TTL": "2s",
		}
	}
	return map[string]string{
		"DB_LOCK_TIMEOUT": "1s", "DB_STATEMENT_TIMEOUT": "2s", "REQUEST_TIMEOUT": "4s", "SHUTDOWN_TIMEOUT": "8s",
		"LOCK_WAIT": "500ms", "PROCESSOR_TIMEOUT": "1s", "CLEANUP_INTERVAL": "1s", "IDEMPOTENCY_TTL": "4s",
		"FINGERPRINT_SECRET": "of the tests",
	}
}

// fleet is one workload of the chart: a Deployment.
type fleet struct {
	service   string
	component string // serve or work
	set       *local.Set
}

// rig is everything that runs.
type rig struct {
	database *localpg.Server
	stranger *sql.DB // a superuser's, for what strangers do
	prom     *prometheus.Server
	kube     *kubeState
	fleets   []*fleet
	load     *load
	began    time.Time

	mu     sync.Mutex
	frozen bool // the targets stay as they are, whatever is restarted
}

// newRig starts it all; everything ends with the test.
func newRig(t *testing.T, rules []string) *rig {
	t.Helper()
	r := &rig{database: dbtest.Server(t), kube: newKubeState(t), began: time.Now()}
	connector, err := pq.NewConnector(r.database.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	r.stranger = sql.OpenDB(connector)
	t.Cleanup(func() { _ = r.stranger.Close() })

	r.prom, err = prometheus.Start(t.Context(), prometheus.Options{Dir: t.TempDir(), Interval: interval, Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.prom.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("stop prometheus: %v", err)
		}
	})

	fleets := make([]*fleet, 0, len(names())+1)
	for _, name := range names() {
		fleets = append(fleets, &fleet{service: name, component: "serve"})
	}
	fleets = append(fleets, &fleet{service: "events", component: "work"})
	paths := binaries(t)
	var starting sync.WaitGroup
	for _, f := range fleets {
		var variables map[string]string
		if f.component == "work" { // whose collector is away
			variables = map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_TIMEOUT": "200"}
		}
		starting.Go(func() { f.set = start(t, r.database.URL("postgres"), f, paths[f.service], perService, variables) })
	}
	starting.Wait()
	if t.Failed() {
		t.FailNow()
	}
	r.fleets = fleets
	r.follow(t)
	t.Logf("%d processes of %d services run after %s", perService*len(fleets), len(names()), time.Since(r.began).Round(time.Second))
	return r
}

// binaries builds the services.
func binaries(t *testing.T) map[string]string {
	t.Helper()
	var building errgroup.Group
	paths := make([]string, len(names()))
	for i, name := range names() {
		building.Go(func() (err error) {
			paths[i], err = local.Binary(t.Context(), name, os.Stderr)
			return err
		})
	}
	if err := building.Wait(); err != nil {
		t.Fatal(err)
	}
	byName := map[string]string{}
	for i, name := range names() {
		byName[name] = paths[i]
	}
	return byName
}

// start runs n processes; variables go over those of all.
func start(t *testing.T, dsn string, f *fleet, path string, n int, variables map[string]string) *local.Set {
	t.Helper()
	environ := timeouts(f.service)
	environ["DATABASE_URL"], environ["PATH"] = dsn, config.Environ()["PATH"]
	maps.Copy(environ, variables)
	said := local.Prefixed(t.Output())
	set, err := local.Start(t.Context(), local.Spec{
		Service: f.service + "-" + f.component, Path: path, Args: []string{f.component}, NoAPI: f.component == "work", Environ: environ,
		Line: func(name string, line []byte) {
			if line[0] != '{' { // a panic, or why it does not start
				said(name, line)
			}
		},
	}, n)
	if err != nil {
		t.Errorf("start %s: %v", f.service, err)
		return nil
	}
	t.Cleanup(func() {
		// Killed: how they end in order is the subject of other tests.
		now, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
		cancel()
		_ = set.Stop(now)
	})
	return set
}

// of is the fleet of a service's API.
func (r *rig) of(service string) *local.Set {
	for _, f := range r.fleets {
		if f.service == service && f.component == "serve" {
			return f.set
		}
	}
	return nil
}

// follow keeps Prometheus' targets those that run, as the operator would.
func (r *rig) follow(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	var last []prometheus.Target
	look := func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		targets := r.targets()
		if r.frozen || slices.EqualFunc(last, targets, func(a, b prometheus.Target) bool { return a.Addr == b.Addr }) {
			return
		}
		last = targets
		if err := r.prom.Scrape(targets); err != nil {
			t.Error(err)
		}
	}
	look()
	done := make(chan struct{})
	t.Cleanup(func() { <-done })
	go func() {
		defer close(done)
		for ticker := time.Tick(200 * time.Millisecond); ; {
			select {
			case <-ticker:
				look()
			case <-ctx.Done():
				return
			}
		}
	}()
}

func (r *rig) targets() []prometheus.Target {
	targets := []prometheus.Target{{Addr: r.kube.addr, Labels: prometheus.Labels{"job": "kube-state-metrics"}}}
	for _, f := range r.fleets {
		for i, one := range f.set.Replicas() {
			if addr := one.Status().Admin; addr != "" {
				targets = append(targets, prometheus.Target{Addr: addr, Labels: f.labels(i)})
			}
		}
	}
	return targets
}

// freeze lets the targets be what they are: a replica that dies is then one that does not answer, as a pod that is
// restarted in its place.
func (r *rig) freeze(frozen bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.frozen = frozen
}

// labels are what the operator makes of the chart's ServiceMonitor for the i-th pod.
// TestLabelsAreThoseOfTheChart compares them with the template.
func (f *fleet) labels(i int) prometheus.Labels {
	name := release + "-" + f.service
	workload := name
	if f.component != "serve" {
		workload += "-" + f.component
	}
	return prometheus.Labels{
		"job": name + "-metrics", "service": name + "-metrics", "namespace": namespace, "endpoint": "admin", "container": f.component,
		// A pod that restarts keeps its address.
		"instance":                    fmt.Sprintf("10.244.%d.%d:9090", len(f.service)*16+len(f.component), i+2),
		"pod":                         fmt.Sprintf("%s-5d8f7c9b6-%c2x7k", workload, 'a'+rune(i)),
		"app_kubernetes_io_name":      f.service,
		"app_kubernetes_io_instance":  release,
		"app_kubernetes_io_component": f.component,
	}
}

// Copied by the operator, as Service and Pod have them, with every character that no label may have as an underscore.
func TestLabelsAreThoseOfTheChart(t *testing.T) {
	t.Parallel()
	template := read(t, chart+"/charts/service/templates/servicemonitor.yaml")
	labels := (&fleet{service: "counts", component: "serve"}).labels(0)
	copied := map[string]bool{}
	for line := range strings.SplitSeq(template, "\n") {
		_, list, found := strings.Cut(line, "argetLabels: [")
		if !found {
			continue
		}
		for name := range strings.SplitSeq(strings.TrimSuffix(list, "]"), ",") {
			copied[strings.NewReplacer(".", "_", "/", "_", "-", "_").Replace(strings.TrimSpace(name))] = true
		}
	}
	for name := range copied {
		if labels[name] == "" {
			t.Errorf("the chart gives the label %s, the rig does not", name)
		}
	}
	for name := range labels {
		ofOperator := slices.Contains([]string{"job", "service", "namespace", "endpoint", "container", "pod", "instance"}, name)
		if !ofOperator && !copied[name] {
			t.Errorf("the rig gives the label %s, the chart does not", name)
		}
	}
	for _, part := range []string{`{{ include "service.fullname" . }}-metrics`, "- port: admin"} {
		if !strings.Contains(template, part) {
			t.Errorf("the ServiceMonitor has no %q", part)
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// needPrometheus skips where there is none, but never in CI.
func needPrometheus(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("prometheus"); err != nil {
		if config.Environ()["CI"] != "" {
			t.Fatal(prometheus.ErrNotInstalled)
		}
		t.Skip(prometheus.ErrNotInstalled)
	}
}

// eventually waits until cond holds.
func eventually(t *testing.T, what string, within time.Duration, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(within)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("not so within %s: %s", within, what)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
