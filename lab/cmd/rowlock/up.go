package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"gopkg.in/natefinch/lumberjack.v2"

	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/lab/internal/targets"
	"github.com/rowlock/rowlock/platform/lifecycle"
	"github.com/rowlock/rowlock/platform/localpg"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/dbtest/faultproxy"
)

const (
	// database holds all services on the private server.
	database = "rowlock"
	// maxReplicas keeps the services' connections (8 each) within max_connections=400 of the private server.
	maxReplicas = 40
	// upStopTimeout bounds the orderly end of everything.
	upStopTimeout = time.Minute
	// pingTimeout bounds the check of the server of DATABASE_URL, which may be far away.
	pingTimeout = 10 * time.Second
	// shutdownDelay is the time for which a replica serves on after SIGTERM, so that the balancer's list, renewed every
	// 100 ms, leaves it out first.
	shutdownDelay = "300ms"
)

// upOptions holds the flags of rowlock up.
type upOptions struct {
	replicas int
	data     string
	fresh    bool
	services []targets.Service
}

func newUp(p process) *cobra.Command {
	var o upOptions
	var names []string
	cmd := &cobra.Command{
		Use: "up", Short: "Run PostgreSQL and replicas of every service until Ctrl-C",
		Long: `Run a private PostgreSQL server, and replicas of every service behind one address each, until Ctrl-C.

A page shows the replicas under load, kills and freezes them, and compares what callers were told with the database.

With DATABASE_URL in the environment that server is used instead of a private one, and there is no page. Other
variables (LOG_REQUESTS, DB_MAX_OPEN_CONNS, OTEL_..., see bin/counts --help) reach the replicas.`,
		Example: "  rowlock up --replicas 3 --service counts --service payments",
		Args:    noWords,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.services, err = choose(names); err != nil {
				return err
			}
			if err := o.validate(p.environ); err != nil {
				return err
			}
			return up(cmd.Context(), p, o)
		},
	}
	cmd.Flags().IntVar(&o.replicas, "replicas", 2, fmt.Sprintf("replicas of each service, 1 to %d", maxReplicas))
	cmd.Flags().StringVar(&o.data, "data", ".rowlock", "folder for the private PostgreSQL, the secrets and the logs")
	cmd.Flags().BoolVar(&o.fresh, "fresh", false, "remove the data of the private PostgreSQL first")
	serviceFlag(cmd, &names, "run")
	return cmd
}

// validate checks the flags and makes the folder's path absolute.
func (o *upOptions) validate(environ map[string]string) (err error) {
	if o.replicas < 1 || o.replicas > maxReplicas {
		return usageError{fmt.Sprintf("up: --replicas %d is not between 1 and %d", o.replicas, maxReplicas)}
	}
	if o.fresh && environ["DATABASE_URL"] != "" {
		return usageError{"up: --fresh empties the private PostgreSQL, but DATABASE_URL names another server"}
	}
	if o.data, err = filepath.Abs(o.data); err != nil {
		return fmt.Errorf("find the folder %s: %w", o.data, err)
	}
	return nil
}

// system is what rowlock up runs.
type system struct {
	process
	upOptions

	console *console
	logs    string          // the folder of the replicas' logs
	server  *localpg.Server // nil with DATABASE_URL
	running []*running
	page    *livePage // nil with DATABASE_URL
}

// up runs everything until ctx ends.
func up(ctx context.Context, p process, o upOptions) error {
	s := &system{process: p, upOptions: o, console: &console{out: p.stdout}, logs: filepath.Join(o.data, "log")}
	if err := os.MkdirAll(s.logs, 0o755); err != nil {
		return fmt.Errorf("make the data folder: %w", err)
	}
	database := lifecycle.Part{Name: "PostgreSQL", Start: s.startServer, Run: s.keepServer}
	if s.environ["DATABASE_URL"] == "" {
		s.page = &livePage{system: s}
	} else {
		database = lifecycle.Part{Name: "PostgreSQL", Start: s.ping}
	}
	parts := []lifecycle.Part{{Name: "binaries", Start: s.findBinaries}, database}
	for _, service := range o.services {
		r := &running{system: s, service: service}
		s.running = append(s.running, r)
		parts = append(parts, r.parts()...)
	}
	if s.page != nil {
		parts = append(parts, s.page.part())
	}
	parts = append(parts, lifecycle.Part{Name: "table", Start: s.printTable, Stop: func(context.Context) error {
		s.console.say("") // after the terminal's own ^C
		return nil
	}})

	// The parts report their steps on the console, so lifecycle's log is dropped.
	err := lifecycle.Run(ctx, slog.New(slog.DiscardHandler), upStopTimeout, parts...)
	if p.hurry.Err() != nil {
		s.console.say("Killed what had not stopped yet.")
		return exitStatus(exitKilled) // err only says that
	}
	if err == nil {
		s.console.say("All stopped.")
	}
	return err
}

// findBinaries comes before the database, which a service that does not compile needs not.
func (s *system) findBinaries(ctx context.Context) (err error) {
	for _, r := range s.running {
		if r.binary, err = local.Binary(ctx, r.service.Name, s.console); err != nil {
			return err
		}
	}
	return nil
}

// ping checks the server of DATABASE_URL once, before every replica does.
func (s *system) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	db, err := sqldb.Open(ctx, sqldb.Settings{
		URL: s.environ["DATABASE_URL"], Pooler: sqldb.Pooler(s.environ["DB_POOLER"]), ApplicationName: "rowlock up",
	}, slog.New(slog.DiscardHandler), nil)
	if err == nil {
		err = errors.Join(db.Ping(ctx), db.Close())
	}
	if err != nil {
		return fmt.Errorf("DATABASE_URL cannot be used: %w", err)
	}
	return nil
}

func (s *system) startServer(ctx context.Context) (err error) {
	s.server, err = localpg.Start(ctx, localpg.Options{
		Dir: filepath.Join(s.data, "postgres"), Fresh: s.fresh, Progress: s.console, Environ: s.environ,
	})
	if errors.Is(err, localpg.ErrInUse) {
		err = fmt.Errorf("%w; another one needs a folder of its own (--data)", err)
	}
	if err == nil {
		err = local.Database(ctx, s.server.URL("postgres"), database)
	}
	if err == nil {
		err = os.WriteFile(s.urlFile(), []byte(s.server.URL(database)+"\n"), 0o600)
	}
	return err
}

// urlFile returns the path of the file with the superuser's URL, for psql.
func (s *system) urlFile() string { return filepath.Join(s.data, "database-url") }

// keepServer starts the private server again when it ends unexpectedly, until ctx ends, and stops it then.
func (s *system) keepServer(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return s.stopServer()
		case <-s.server.Done():
		}
		s.console.say("PostgreSQL ended by itself; starting it again")
		err := s.server.Restart(ctx)
		if err == nil {
			s.console.say("PostgreSQL is back")
		} else if ctx.Err() == nil {
			return fmt.Errorf("it ended by itself and could not be started again, see %s: %w", s.server.LogFile(), err)
		}
	}
}

func (s *system) stopServer() error {
	s.console.say("Stopping PostgreSQL")
	ctx, cancel := s.stopping()
	defer cancel()
	return s.server.Stop(ctx)
}

// replicaEnviron returns the environment of the replicas.
func (s *system) replicaEnviron() map[string]string {
	env := maps.Clone(s.environ)
	if s.server != nil {
		env = local.Environ(s.environ)
	}
	delete(env, "INTERNAL_HTTP_ADDR") // the balancer has one address
	if env["SHUTDOWN_DELAY"] == "" {
		env["SHUTDOWN_DELAY"] = shutdownDelay
	}
	return env
}

// running is one service of a [system].
type running struct {
	system   *system
	service  targets.Service
	binary   string
	environ  map[string]string // of the replicas
	proxy    *faultproxy.Proxy // to the private server; nil with DATABASE_URL
	balancer *local.Balancer
	replicas *local.Set
}

// parts returns what is started for the service, in order. The balancer is stopped after the replicas, so that their
// last answers pass.
func (r *running) parts() []lifecycle.Part {
	name, n := r.service.Name, r.system.replicas
	what := "1 replica of " + name
	if n > 1 {
		what = fmt.Sprintf("%d replicas of %s", n, name)
	}
	parts := []lifecycle.Part{
		{Name: name + " schema", Start: r.provision, Stop: r.closeProxy},
		{Name: name + " balancer", Start: r.startBalancer, Stop: r.stopBalancer},
		r.processes(what, local.Spec{Service: name}, n, func(set *local.Set) {
			r.replicas = set
			r.balancer.To(set)
		}),
	}
	if r.service.Worker != "" {
		spec := local.Spec{Service: name + "-worker", Command: r.service.Worker}
		parts = append(parts, r.processes("a worker of "+name, spec, 1, func(*local.Set) {}))
	}
	return parts
}

// provision makes the service's secret, and roles and schema on the private server. On the server of DATABASE_URL the
// replicas migrate at their start, with the role that it names.
func (r *running) provision(ctx context.Context) (err error) {
	r.environ = r.system.replicaEnviron()
	if variable := r.service.Secret; variable != "" && r.environ[variable] == "" {
		if r.environ[variable], err = keptSecret(r.system.data, variable); err != nil {
			return err
		}
	}
	if r.system.server == nil {
		return nil
	}
	err = local.Provision(ctx, r.binary, r.system.server.URL(database), local.SchemaOf(r.service), r.environ)
	if err != nil {
		return err
	}
	return r.throughProxy()
}

// startBalancer gives the service its one address, with another port where its own is in use.
func (r *running) startBalancer(ctx context.Context) (err error) {
	r.balancer, err = local.NewBalancer(ctx, r.service.Name, r.service.Port)
	if !errors.Is(err, syscall.EADDRINUSE) {
		return err
	}
	if r.balancer, err = local.NewBalancer(ctx, r.service.Name, 0); err == nil {
		r.system.console.say("Port %d is in use: %s is at %s instead", r.service.Port, r.service.Name, r.balancer.URL())
	}
	return err
}

// stopBalancer cuts off slow clients, which are no failure.
func (r *running) stopBalancer(context.Context) error {
	ctx, cancel := r.system.stopping()
	defer cancel()
	if r.balancer.Stop(ctx) != nil {
		r.system.console.say("Cut off clients of %s that had not sent or read to the end", r.service.Name)
	}
	return nil
}

// processes runs n processes; started is called with them when they are ready.
func (r *running) processes(what string, spec local.Spec, n int, started func(*local.Set)) lifecycle.Part {
	var set *local.Set
	return lifecycle.Part{
		Name: what,
		Start: func(ctx context.Context) (err error) {
			r.system.console.say("Starting %s", what)
			spec.Path, spec.Environ = r.binary, r.environ
			spec.Line = logLines(r.system.logs, r.system.console)
			spec.Say = func(sentence string) { r.system.console.say("%s", sentence) }

			if set, err = local.Start(ctx, spec, n); err == nil {
				started(set)
			}
			return err
		},
		Stop: func(context.Context) error {
			r.system.console.say("Stopping %s", what)
			ctx, cancel := r.system.stopping()
			defer cancel()
			return set.Stop(ctx)
		},
	}
}

// keptSecret returns the secret that the folder keeps for a variable: 64 hexadecimal digits in a file of the variable's
// name that only its owner can read. It makes the file where there is none.
func keptSecret(folder, variable string) (string, error) {
	file := filepath.Join(folder, strings.ToLower(strings.ReplaceAll(variable, "_", "-")))
	kept, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		var secret [32]byte
		rand.Read(secret[:]) // never fails: it ends the program instead
		kept = []byte(hex.EncodeToString(secret[:]) + "\n")
		err = os.WriteFile(file, kept, 0o600)
	}
	if err != nil {
		return "", fmt.Errorf("keep a secret for %s: %w", variable, err)
	}
	return strings.TrimSpace(string(kept)), nil
}

// console writes lines from many goroutines.
type console struct {
	mu  sync.Mutex
	out io.Writer
}

func (c *console) say(format string, args ...any) {
	say(c, format, args...)
}

// Write writes whole lines.
func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.Write(p)
}

// printTable prints the addresses and processes of all services, and commands to try.
func (s *system) printTable(context.Context) error {
	var b bytes.Buffer
	tw := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	if s.page != nil {
		say(&b, "\nWatch it live, and break it: %s", s.page.url())
	}
	say(tw, "\nSERVICE\tADDRESS\tTRY IT IN THE BROWSER\tREPLICAS")
	for _, r := range s.running {
		cells := r.service.Name + "\t" + r.balancer.URL() + "\t" + r.balancer.URL() + "/docs"
		for _, st := range r.replicas.Statuses() {
			say(tw, "%s\t%s: process %d, metrics at http://%s/metrics", cells, st.Name, st.PID, st.Admin)
			cells = "\t\t"
		}
	}

	if err := tw.Flush(); err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	say(&b, "\nPaste into another terminal:")
	for _, r := range s.running {
		say(&b, "  %s", strings.ReplaceAll(r.service.Try, "URL", r.balancer.URL()))
	}

	if s.server != nil {
		say(&b, "\n"+`The database, with psql:  psql "$(cat %s)"`, s.urlFile())
	} else {
		say(&b, "\nThe database is the one of DATABASE_URL.")
	}

	say(&b, "All logs: %s (warnings and errors appear here too). Ctrl-C stops everything.", s.logs)
	_, err := s.console.Write(b.Bytes())
	return err
}

// maxLog is the size in megabytes at which a log file is rotated; one older file is kept.
const maxLog = 16

// logLines returns a function for local.Spec.Line that writes each replica's lines to a log file in the folder, new
// with each run, and warnings and errors to the console.
func logLines(folder string, out *console) func(replica string, line []byte) {
	var mu sync.Mutex
	files := map[string]io.Writer{}
	return func(replica string, line []byte) {
		mu.Lock()
		file := files[replica]
		if file == nil {
			path := filepath.Join(folder, replica+".log")
			_ = os.Remove(path) // there is none, or it cannot be written either
			file = &lumberjack.Logger{Filename: path, MaxSize: maxLog, MaxBackups: 1}
			files[replica] = file
		}
		mu.Unlock()
		_, _ = file.Write(append(slices.Clone(line), '\n')) // a full disk does not stop a replica
		if text, ok := readable(line); ok {
			out.say("%s | %s", replica, text)
		}
	}
}

// readable returns a JSON log line as text, without time, service and version. ok reports whether it is a warning, an
// error, or no log line at all, such as a panic.
func readable(line []byte) (text string, ok bool) {
	var members map[string]any
	if json.Unmarshal(line, &members) != nil {
		return string(line), true
	}
	level := members["level"]
	parts := []string{fmt.Sprint(level), fmt.Sprint(members["msg"])}
	for _, name := range []string{"time", "level", "msg", "service", "version"} {
		delete(members, name)
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		parts = append(parts, fmt.Sprintf("%s=%v", name, members[name]))
	}
	return strings.Join(parts, " "), level == "WARN" || level == "ERROR"
}
