package bench

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"

	"github.com/rowlock/rowlock/lab/internal/fault"
	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/lab/internal/targets"
	"github.com/rowlock/rowlock/platform/localpg"
	"github.com/rowlock/rowlock/platform/localpg/guard"
)

// stopTimeout bounds the end of the replicas and the servers when a bench is over or was interrupted.
const stopTimeout = 30 * time.Second

// serverParent is on a disk: /tmp lies in memory on many systems, where a commit costs nothing and every figure is too
// good.
const serverParent = "/var/tmp"

// Host says where a bench runs.
type Host struct {
	// Environ reaches the replicas. DATABASE_URL is not used: a bench fills what it gets.
	Environ map[string]string
	// Progress gets a line for each run.
	Progress io.Writer
	// Line gets the log lines of the replicas.
	Line func(replica string, line []byte)
}

// runner holds the running system that a bench measures.
type runner struct {
	Options

	host     Host
	machine  string // where the figures are measured
	binary   string
	environ  map[string]string // of replicas
	replicas []local.Status
	// connections is how many the generator holds.
	connections int
	// url is the database of the service, as the superuser; pgbench updates its own tables there.
	url         string
	databasePID int
	pgbench     string // the program; empty without one
	postgres    *localpg.Server

	stops []func(context.Context) error
}

// start starts a private PostgreSQL server, with PostgreSQL's own defaults, and n replicas of the service on it. call
// stop even after an error.
func (r *runner) start(ctx, hurry context.Context, n int) (err error) {
	service, err := targets.Named(r.Service)
	if err != nil {
		return err
	}
	if r.binary, err = local.Binary(ctx, r.Service, r.host.Progress); err != nil {
		return err
	}

	postgres := localpg.Options{Parent: serverParent, Environ: r.host.Environ, Progress: r.host.Progress}
	server, err := local.StartPostgres(ctx, r.Service, postgres)
	if err != nil {
		return err
	}

	r.onStop(server.Stop)
	r.postgres, r.url, r.databasePID = server, server.URL(r.Service), server.PID()
	// Without pgbench the bench still measures the service, without a baseline.
	if r.pgbench, err = findPgbench(server.BinDir()); err != nil {
		r.printf("%v: there are no baselines, so no ratios\n", err)
	}

	var version string
	if err := local.Read(ctx, r.url, `SHOW server_version`, &version); err != nil {
		return err
	}
	r.machine = fmt.Sprintf("%s, %d cores, PostgreSQL %s with its default settings", cpu(), runtime.NumCPU(), version)
	r.environ = map[string]string{"GOMAXPROCS": "1"} // as the chart runs a replica that asks for at most one core
	maps.Copy(r.environ, service.Environ)
	maps.Copy(r.environ, local.Environ(r.host.Environ))
	if err := local.Provision(ctx, r.binary, r.url, local.SchemaOf(service), r.environ); err != nil {
		return err
	}

	set, err := r.launch(ctx, local.Spec{}, n)
	if err != nil {
		return err
	}

	r.replicas = set.Statuses()
	r.onStop(set.Stop)
	// The load waits for the answers to what it has sent, or for the end of the replicas that owe them.
	unused := context.AfterFunc(hurry, func() { _ = set.Stop(hurry) })
	r.onStop(func(context.Context) error { unused(); return nil })
	return nil
}

// launch starts n processes of the service; the environment of the spec goes over that of all.
func (r *runner) launch(ctx context.Context, spec local.Spec, n int) (*local.Set, error) {
	environ := maps.Clone(r.environ)
	maps.Copy(environ, spec.Environ)
	spec.Service, spec.Path, spec.Environ, spec.Line = r.Service, r.binary, environ, r.host.Line
	return local.Start(ctx, spec, n)
}

func (r *runner) onStop(f func(context.Context) error) { r.stops = append(r.stops, f) }

// stop stops everything in reverse order, and kills what is left when hurry ends.
func (r *runner) stop(hurry context.Context) (err error) {
	ctx, cancel := context.WithTimeout(hurry, stopTimeout)
	defer cancel()
	for _, stop := range slices.Backward(r.stops) {
		err = errors.Join(err, stop(ctx))
	}
	return err
}

// listen starts a program that listens on a port of 127.0.0.1, with a folder on a disk. stop ends it and removes the
// folder.
func listen(
	ctx context.Context, name string, spec func(port int, dir string, user *guard.User) guard.Spec,
) (server *guard.Server, stop func() error, err error) {
	user, err := guard.Unprivileged()
	if err != nil {
		return nil, nil, err
	}
	dir, err := guard.TempFolder(serverParent, "rowlock-bench-*")
	if err == nil {
		err = user.Own(dir)
	}
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}

	server = guard.NewServer(guard.Config{
		Name: name, LogFile: filepath.Join(dir, "messages"), Stop: syscall.SIGTERM, Kill: syscall.SIGKILL,
		Spec: func(port int) (guard.Spec, error) { return spec(port, dir, user), nil },
		Ready: func(ctx context.Context) error {
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", server.Address())
			if err != nil {
				return err
			}
			return conn.Close()
		},
	})
	if err := server.Start(ctx, 0); err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	return server, func() error { return errors.Join(server.Kill(), os.RemoveAll(dir)) }, nil
}

// output runs a program to its end and returns what it prints. Interrupted, it has five seconds.
func output(ctx context.Context, program, stdin string, environ []string, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(cmd.Environ(), append(environ, "LC_ALL=C")...) // the output is parsed
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%w: %s", errors.Join(context.Cause(ctx), err), strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// number returns a function that reads one number by the query.
func number(url, query string) func(context.Context) (int64, error) {
	return func(ctx context.Context) (n int64, err error) {
		err = local.Read(ctx, url, query, &n)
		return n, err
	}
}

// cpu returns the name of the processor's model, its architecture where /proc has none.
func cpu() string {
	if proc, err := procfs.NewDefaultFS(); err == nil {
		if info, err := proc.CPUInfo(); err == nil && len(info) > 0 {
			return cmp.Or(info[0].ModelName, runtime.GOARCH)
		}
	}
	return runtime.GOARCH
}

// unbounded is longer than any run.
const unbounded = time.Hour

// observe returns what is used from the end of the warm-up to the end of the window, or until ctx ends: the CPU times,
// that of the whole machine as othersCPU, and the memory and the size of the tables at the end and their growth from
// the middle of the window. A window of 0 has no end.
func observe(ctx context.Context, used func() Figures, warmup, window time.Duration) Figures {
	if !fault.Wait(ctx, warmup) {
		return nil
	}
	before, half := used(), cmp.Or(window, unbounded)/2
	middle := Figures{}
	if fault.Wait(ctx, half) {
		middle = used()
		fault.Wait(ctx, half)
	}
	seen := used()
	for _, figure := range []string{clientCPU, replicaCPU, databaseCPU, othersCPU} {
		seen[figure] -= before[figure]
	}
	for figure, growth := range map[string]string{memory: memoryGrowth, tables: tablesGrowth} {
		if middle[figure] > 0 {
			seen[growth] = seen[figure] / middle[figure]
		}
	}
	return seen
}

// used returns the CPU time used until now in microseconds, and in MiB the memory of the replicas and what sizeSQL
// reads, if it is not empty. It leaves out what cannot be read, such as where there is no /proc.
//
// PostgreSQL has one process for each connection. Those of the replicas' pools outlast a run, so none of its CPU is
// lost with a process that ended.
func (r *runner) used(ctx context.Context, replicas []int, sizeSQL string) Figures {
	const second = 1e6 // microseconds
	seen := Figures{}
	var mebi float64
	if sizeSQL != "" && local.Read(ctx, r.url, sizeSQL, &mebi) == nil {
		seen[tables] = mebi
	}
	processes, _ := procfs.AllProcs()
	for _, p := range processes {
		stat, err := p.Stat()
		if err != nil {
			continue // it has ended
		}
		switch cpu := second * stat.CPUTime(); {
		case p.PID == os.Getpid():
			seen[clientCPU] += cpu
		case slices.Contains(replicas, p.PID):
			seen[replicaCPU] += cpu
			seen[memory] += float64(stat.ResidentMemory()) / (1 << 20)
		case r.databasePID > 0 && (p.PID == r.databasePID || stat.PPID == r.databasePID):
			seen[databaseCPU] += cpu
		}
	}

	if proc, err := procfs.NewDefaultFS(); err == nil {
		if stat, err := proc.Stat(); err == nil {
			all := stat.CPUTotal
			seen[othersCPU] = second * (all.User + all.Nice + all.System + all.IRQ + all.SoftIRQ + all.Steal)
		}
	}
	return seen
}
