package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/rowlock/rowlock/lab/internal/guest"
	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/lab/internal/prove"
	"github.com/rowlock/rowlock/lab/internal/services"
	"github.com/rowlock/rowlock/platform/localpg"
)

// dsnFlag defines --dsn. An empty one, of a variable that is not set, is an error: it must not start a private server.
func dsnFlag(flags *pflag.FlagSet, dsn *string) {
	const usage = "PostgreSQL server to run on instead of a private one: `URL` of a role with CREATEDB and CREATEROLE; " +
		"what the run makes there is dropped at the end, and what needs to own the server is left out"
	flags.Func("dsn", usage, func(text string) error {
		if text == "" {
			return errors.New("it is empty")
		}
		*dsn = text
		return nil
	})
}

// look finds out whether the server that --dsn names can take the run; nil without
// --dsn. What is against it is an error of usage.
func look(ctx context.Context, p process, command string, o proveOptions) (*guest.Server, error) {
	if o.dsn == "" {
		return nil, nil //nolint:nilnil // "no such server" is an answer here, not a failure
	}
	host, err := guest.Parse(o.dsn)
	if err == nil {
		err = host.Look(ctx, mostConnections(p.environ, o))
	}
	if refusal, ok := errors.AsType[guest.RefusalError](err); ok {
		return nil, usageError{command + ": --dsn: " + refusal.Error()}
	}
	return host, err
}

// mostConnections is how many a run may open at once: every pool full, and as many
// again for a replica of each service that is ending while another one starts.
func mostConnections(environ map[string]string, o proveOptions) (n int) {
	const (
		usual     = 8 // DB_MAX_OPEN_CONNS
		reserved  = 2 // of it, which a second pool has not
		processes = 2 // of workers
		ourselves = 2 // a service: a stranger's transaction, and a look into the database
	)
	pool, err := strconv.Atoi(environ["DB_MAX_OPEN_CONNS"])
	if err != nil || pool < 1 {
		pool = usual
	}
	for _, s := range o.services {
		of := pool
		if s.SecondPool {
			of += pool - reserved
		}
		n += (o.replicas+1)*of + ourselves
		if s.Worker != "" {
			n += (processes + 1) * pool
		}
	}
	return n + ourselves
}

// somethingIsLeft refuses a run of nothing but windows that need to own the server. Events
// have one that is their own, if MariaDB is installed.
func somethingIsLeft(o proveOptions, windows []prove.Window) error {
	owner := !slices.ContainsFunc(windows, func(w prove.Window) bool { return !w.Owner })
	maria := slices.ContainsFunc(o.services, func(s services.Service) bool { return s.Name == services.Events })
	if o.dsn != "" && owner && !maria {
		return usageError{"prove: the window " + windows[0].Name + " needs to own the server, so nothing is left to run on that of --dsn"}
	}
	return nil
}

// replicaEnviron is the environment of the replicas without what is about another
// server, whichever it is, and without the administrator's name and password.
func (v prover) replicaEnviron() map[string]string {
	env := (&system{process: v.process}).replicaEnviron()
	maps.DeleteFunc(env, func(name, _ string) bool {
		return name == "DB_POOLER" || strings.HasSuffix(name, "DATABASE_URL") || strings.HasSuffix(name, "DATABASE_URI") ||
			strings.HasPrefix(name, "PG") || strings.HasPrefix(name, "OTEL_")
	})
	return env
}

// schemaOf is what a service needs in the database of a run.
type schemaOf func(local.Schema) local.Schema

// leaver gives back what a run has taken; left names what it could not drop. It does
// not end with ctx.
type leaver func(ctx context.Context) (left []string, err error)

// enter makes the run's database, on a server of its own or as a guest. leave is to be
// called even when it fails.
func (v prover) enter(ctx context.Context, sys *prove.System) (schema schemaOf, leave leaver, err error) {
	if v.host != nil {
		return v.enterHost(ctx, sys)
	}
	nothing := func(context.Context) ([]string, error) { return nil, nil }
	server, err := startProveServer(ctx, v.process)
	if err != nil {
		return nil, nothing, err
	}
	sys.Server, sys.Admin = server, server.URL(database)
	leave = func(ctx context.Context) ([]string, error) {
		stopCtx, cancel := benchStopContext(ctx, v.process)
		defer cancel()
		return nil, errors.Join(server.Stop(stopCtx), localpg.Remove(context.WithoutCancel(ctx), server.Dir()))
	}
	return func(s local.Schema) local.Schema { return s }, leave, nil
}

// leaveError is why a run could not give back what it had taken. It says nothing about
// what was proven.
type leaveError struct{ why error }

func (e leaveError) Error() string { return e.why.Error() }

func (e leaveError) Unwrap() error { return e.why }

// endTimeout is how long a run may take to end in order after the first Ctrl-C: the
// replicas have 8 s. What is not over then is waiting for a silent server.
const endTimeout = 30 * time.Second

// interruptible runs something that may not hear of ctx's end, and goes on without it
// when it has not ended in time.
func interruptible(ctx context.Context, timeout time.Duration, do func() (*prove.Report, error)) (*prove.Report, error) {
	type outcome struct {
		report *prove.Report
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		report, err := do()
		done <- outcome{report, err}
	}()
	select {
	case one := <-done:
		return one.report, one.err
	case <-ctx.Done():
	}
	select {
	case one := <-done:
		return one.report, one.err
	case <-time.After(timeout):
		return nil, fmt.Errorf("prove: the run has not ended within %s: %w", timeout, context.Cause(ctx))
	}
}

// leaveTimeout bounds how long it is tried to drop what the run made. A second Ctrl-C
// does not shorten it; the third one ends everything, and leaves it there.
const leaveTimeout = 30 * time.Second

// enterHost makes the run's database on the server that --dsn names.
func (v prover) enterHost(ctx context.Context, sys *prove.System) (schemaOf, leaver, error) {
	stay, err := v.host.Enter(ctx)
	leave := func(ctx context.Context) ([]string, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
		defer cancel()
		left, err := stay.Leave(ctx)
		if err != nil {
			return left, fmt.Errorf("prove: %w", err)
		}
		return left, nil
	}
	if err != nil {
		return nil, leave, fmt.Errorf("prove: %w", err)
	}
	say(v.stdout, "On %s; the database and roles of this run are %s and %[2]s_...", v.host.Version(), stay.Names())
	sys.Admin, sys.TLS, sys.Name, sys.Notes = stay.Admin(), v.host.TLS(), v.host.Version(), stay.Notes()
	sys.Uncounted = stay.Deadlocks()
	return stay.Service, leave, nil
}

// sayMissing says what the runs did not do or could not see, the same only once.
func sayMissing(w io.Writer, reports ...*prove.Report) {
	said := map[string]bool{}
	for _, report := range reports {
		for _, line := range report.Missing() {
			if !said[line] {
				say(w, "Not part of this proof: %s.", line)
			}
			said[line] = true
		}
	}
}

// startProveServer starts a server whose deadlock detector is faster than the services' patience.
func startProveServer(ctx context.Context, p process) (*localpg.Server, error) {
	dir, err := os.MkdirTemp("", "rowlock-prove-")
	if err != nil {
		return nil, fmt.Errorf("prove: make a folder for the database: %w", err)
	}
	// When root runs this, the server runs as somebody else, who must get through.
	if err := os.Chmod(dir, 0o711); err != nil {
		return nil, errors.Join(fmt.Errorf("prove: open the folder for the database: %w", err), os.RemoveAll(dir))
	}
	server, err := localpg.Start(ctx, localpg.Options{
		Dir: dir, Temporary: true, Environ: p.environ, Progress: p.stderr, Settings: map[string]string{"deadlock_timeout": "5ms"},
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("prove: %w", err), os.RemoveAll(dir))
	}
	if err := local.Database(ctx, server.URL("postgres"), database); err != nil {
		stopCtx, cancel := benchStopContext(ctx, p)
		defer cancel()
		return nil, errors.Join(fmt.Errorf("prove: %w", err), server.Stop(stopCtx), localpg.Remove(stopCtx, server.Dir()))
	}
	return server, nil
}
