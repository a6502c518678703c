package observe

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"

	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/lab/internal/local/localtest"
	"github.com/rowlock/rowlock/lab/internal/targets"
	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/localpg"
	"github.com/rowlock/rowlock/platform/localpg/guard"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }

const (
	chart = "../../charts/rowlock"
	// release and namespace name the simulated installation.
	release   = "rowlock"
	namespace = "shop"
	// interval is how often Prometheus scrapes and evaluates the rules; the chart says 30 s.
	interval = time.Second
	// perService is the number of replicas of each workload.
	perService = 2
)

// fleet holds the processes of one workload of the chart, a Deployment.
type fleet struct {
	service   string
	component string // serve or work
	environ   map[string]string
	line      func(replica string, line []byte)
	set       *local.Set
}

// fleets returns the workloads of all services.
func fleets() (all []*fleet) {
	for _, s := range targets.All() {
		for _, command := range s.Commands() {
			all = append(all, &fleet{service: s.Name, component: command})
		}
	}
	return all
}

// startAll starts n processes of each workload, all at once. They are killed at the end of the test: how they stop is
// the subject of others.
func startAll(t *testing.T, fleets []*fleet, n int, server *localpg.Server) {
	t.Helper()
	for _, f := range fleets {
		localtest.Binary(t, f.service)
	}
	waittest.Together(t, len(fleets), func(i int) error {
		return fleets[i].start(t, n, server.URL("postgres"))
	})
}

func (f *fleet) start(t *testing.T, n int, dsn string) error {
	t.Helper()
	registered, err := targets.Named(f.service)
	if err != nil {
		return err
	}

	environ := map[string]string{"DATABASE_URL": dsn, "PATH": config.Environ()["PATH"], "SHUTDOWN_DELAY": "0s"}
	maps.Copy(environ, registered.Environ)
	maps.Copy(environ, f.environ)

	f.set, err = local.Start(t.Context(), local.Spec{
		Service: f.service + "-" + f.component, Path: localtest.Binary(t, f.service), Command: f.component,
		Environ: environ, Line: f.line,
	}, n)
	if err != nil {
		return err
	}
	t.Cleanup(func() {
		now, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
		cancel()
		_ = f.set.Stop(now) // reports that they were killed
	})
	return nil
}

// request is one call of a client.
type request struct {
	method, path, body string
	header             map[string]string
}

func post(path, body string) request { return request{method: http.MethodPost, path: path, body: body} }

func put(path, body string) request { return request{method: http.MethodPut, path: path, body: body} }

func remove(path, body string) request {
	return request{method: http.MethodDelete, path: path, body: body}
}

func get(path string) request { return request{method: http.MethodGet, path: path} }

func (q request) with(header map[string]string) request {
	q.header = header
	return q
}

// in returns the request with marks of that round.
func (q request) in(round int) request {
	marks := strings.NewReplacer(mark, mark+strconv.Itoa(round))
	q.method, q.path, q.body = marks.Replace(q.method), marks.Replace(q.path), marks.Replace(q.body)

	header := map[string]string{}
	for name, value := range q.header {
		header[name] = marks.Replace(value)
	}
	return q.with(header)
}

// send sends the request to the host and port addr.
func (q request) send(t *testing.T, addr string) apptest.Answer {
	t.Helper()
	header := map[string]string{}
	if strings.HasPrefix(q.body, "{") {
		header = apptest.JSON()
	}
	maps.Copy(header, q.header)
	return apptest.Send(t, q.method, "http://"+addr+q.path, q.body, header)
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// needPrometheus skips the test where there is no Prometheus, but never in CI.
func needPrometheus(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("prometheus"); err != nil {
		const missing = "prometheus is not installed (`apt-get install prometheus`, `brew install prometheus`)"
		if config.Environ()["CI"] != "" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
}

// rig holds what TestObserved runs.
type rig struct {
	prom   v1.API
	fleets []*fleet
}

// newRig starts the database, all workloads, and a Prometheus that scrapes them; everything ends with the test.
func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{fleets: fleets()}
	write := local.Prefixed(t.Output())
	line := func(name string, line []byte) {
		if line[0] != '{' { // a panic, or why it does not start
			write(name, line)
		}
	}

	for _, f := range r.fleets {
		f.line, f.environ = line, maps.Clone(timeouts)
		maps.Copy(f.environ, registered[f.service].environ)
		if f.component == "work" { // its collector does not answer, so that spans are lost
			f.environ["OTEL_EXPORTER_OTLP_ENDPOINT"], f.environ["OTEL_EXPORTER_OTLP_TIMEOUT"] = "http://127.0.0.1:1", "200"
		}
	}
	startAll(t, r.fleets, perService, dbtest.Server(t))

	scraped := []target{{[]string{autoscalers(t)}, map[string]string{"job": "kube-state-metrics"}}}
	for _, f := range r.fleets {
		for i, one := range f.set.Replicas() {
			scraped = append(scraped, target{[]string{one.Status().Admin}, f.labels(i)})
		}
	}
	r.prom = startPrometheus(t, scraped)
	return r
}

// target is an address to scrape, with labels that are set on all its series.
type target struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

// startPrometheus starts a private Prometheus that scrapes these targets until the test ends, and returns its API.
func startPrometheus(t *testing.T, scraped []target) (prom v1.API) {
	t.Helper()
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }

	scraping, err := json.Marshal(map[string]any{ // which is YAML too
		"global":         map[string]any{"scrape_interval": interval.String(), "scrape_timeout": interval.String()},
		"scrape_configs": []any{map[string]any{"job_name": "targets", "static_configs": scraped}},
	})
	if err == nil {
		err = os.WriteFile(file("prometheus.yml"), scraping, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}

	program, err := exec.LookPath("prometheus")
	if err != nil {
		t.Fatal(err)
	}
	var server *guard.Server
	server = guard.NewServer(guard.Config{
		Name: "prometheus", LogFile: file("prometheus.log"), Stop: syscall.SIGTERM, Kill: syscall.SIGKILL,
		Spec: func(port int) (guard.Spec, error) {
			return guard.Spec{Path: program, Dir: dir, Args: []string{
				"--config.file=" + file("prometheus.yml"), "--storage.tsdb.path=" + file("data"),
				"--web.listen-address=127.0.0.1:" + strconv.Itoa(port), "--log.level=warn",
			}}, nil
		},
		Ready: func(ctx context.Context) error {
			client, err := api.NewClient(api.Config{Address: "http://" + server.Address()})
			if err != nil {
				return err
			}
			prom = v1.NewAPI(client)
			_, err = prom.Buildinfo(ctx)
			return err
		},
	})

	if err := server.Start(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Kill() }) // its data is of no use
	return prom
}

// timeouts are short, so that they pass during TestObserved.
var timeouts = map[string]string{
	"DB_LOCK_TIMEOUT": "1s", "DB_STATEMENT_TIMEOUT": "2s", "REQUEST_TIMEOUT": "4s", "SHUTDOWN_TIMEOUT": "8s",
}

// of returns the replicas of a service's API.
func (r *rig) of(service string) *local.Set {
	i := slices.IndexFunc(r.fleets, func(f *fleet) bool { return f.service == service && f.component == "serve" })
	return r.fleets[i].set
}

// labels returns what the operator makes of the chart's ServiceMonitor for the i-th pod.
func (f *fleet) labels(i int) map[string]string {
	name := release + "-" + f.service
	workload := name
	if f.component != "serve" {
		workload += "-" + f.component
	}
	return map[string]string{
		"job":                         name + "-metrics",
		"service":                     name + "-metrics",
		"namespace":                   namespace,
		"endpoint":                    "admin",
		"container":                   f.component,
		"instance":                    fmt.Sprintf("10.244.%d.%d:9090", len(f.service)*16+len(f.component), i+2),
		"pod":                         fmt.Sprintf("%s-5d8f7c9b6-%c2x7k", workload, 'a'+rune(i)),
		"app_kubernetes_io_name":      f.service,
		"app_kubernetes_io_instance":  release,
		"app_kubernetes_io_component": f.component,
	}
}

// The operator copies these labels from Service and Pod, with an underscore for each character that no label may have.
func TestLabelsAreThoseOfTheChart(t *testing.T) {
	t.Parallel()
	template := read(t, chart+"/charts/service/templates/servicemonitor.yaml")
	want := []string{"job", "service", "namespace", "endpoint", "container", "pod", "instance"} // the operator's own
	for line := range strings.SplitSeq(template, "\n") {
		if _, list, found := strings.Cut(line, "argetLabels: ["); found {
			for name := range strings.SplitSeq(strings.TrimSuffix(list, "]"), ",") {
				want = append(want, strings.NewReplacer(".", "_", "/", "_", "-", "_").Replace(strings.TrimSpace(name)))
			}
		}
	}
	slices.Sort(want)
	got := slices.Sorted(maps.Keys((&fleet{component: "serve"}).labels(0)))
	if !slices.Equal(got, slices.Compact(want)) {
		t.Errorf("the rig gives the labels %v, the chart %v", got, want)
	}
}
