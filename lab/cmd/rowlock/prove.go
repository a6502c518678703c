package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rowlock/rowlock/lab/internal/fault"
	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/lab/internal/patroni"
	"github.com/rowlock/rowlock/lab/internal/prove"
	"github.com/rowlock/rowlock/lab/internal/remote"
	"github.com/rowlock/rowlock/lab/internal/targets"
	"github.com/rowlock/rowlock/platform/localcitus"
	"github.com/rowlock/rowlock/platform/localmaria"
	"github.com/rowlock/rowlock/platform/localpg"
	"github.com/rowlock/rowlock/platform/sqldb"
)

// proveOptions holds the flags of `rowlock prove`.
type proveOptions struct {
	prove.Setup

	chosen []targets.Service
	length time.Duration
	faults []string
	dsn    string
}

// shortestWindow leaves room for a fault, its timeouts and the second before and after.
const shortestWindow = 8 * time.Second

func newProve(p process) *cobra.Command {
	var o proveOptions
	var names []string
	cmd := &cobra.Command{
		Use: "prove", Short: "Inject faults into the running system and check the promises", Args: noWords,
		Example: "  rowlock prove --service counts --faults kill,replies --for 30s",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			// An empty URL comes from a variable that is not set: it must not start a private server.
			if cmd.Flags().Changed("dsn") && o.dsn == "" {
				return usageError{"prove: --dsn is empty"}
			}
			if o.chosen, err = choose(names); err != nil {
				return err
			}
			return runProve(cmd.Context(), p, o)
		},
	}

	flags := cmd.Flags()
	serviceFlag(cmd, &names, "prove")
	flags.IntVar(&o.Replicas, "replicas", 3, "replicas of each service")
	flags.IntVar(&o.Clients, "clients", 8, "clients of each service")
	flags.DurationVar(&o.length, "for", 3*time.Minute, "length of all fault windows together")
	seedFlag(flags, &o.Seed)
	flags.StringSliceVar(&o.faults, "faults", nil,
		"comma-separated fault windows, of "+strings.Join(prove.Names(), ",")+": failover and all after it "+
			"start other servers, and run only when they are named; citus names all that run on a Citus cluster")
	flags.StringVar(&o.dsn, "dsn", "",
		"PostgreSQL server to run on instead of a private one: `URL` of a role with CREATEDB and CREATEROLE")
	flags.StringVar(&o.Out, "out", filepath.Join(".tmp", "proof"),
		"folder for proof.json, proof.html and pictures of violations; empty for none")
	return cmd
}

// schedule checks the options and makes the windows.
func (o *proveOptions) schedule() (err error) {
	if o.Replicas < 2 || o.Replicas > 10 || o.Clients < 1 || o.Clients > 64 {
		return usageError{"prove: --replicas must be between 2 and 10, --clients between 1 and 64"}
	}
	parts := prove.Parts(o.faults)
	length := o.length / time.Duration(max(parts, 1))
	if length < shortestWindow {
		return usageError{fmt.Sprintf("prove: these faults need --for %s or longer; or name fewer --faults",
			time.Duration(parts)*shortestWindow)}
	}

	if o.Windows, err = prove.Schedule(o.Seed, length, o.faults); err != nil {
		return usageError{"prove: " + err.Error()}
	}
	o.Windows = slices.DeleteFunc(o.Windows, func(w prove.Window) bool {
		return !slices.ContainsFunc(o.chosen, func(s targets.Service) bool { return w.Has(s.Name) })
	})
	if len(o.Windows) == 0 {
		return usageError{"prove: no chosen service takes part in that, so there is nothing to run"}
	}
	if o.dsn != "" {
		o.Windows = slices.DeleteFunc(o.Windows, prove.Window.NeedsOwner)
	}

	if len(o.Windows) == 0 {
		return usageError{"prove: only the owner of the server can inject that, so there is nothing to run with --dsn"}
	}
	return nil
}

func runProve(ctx context.Context, p process, o proveOptions) error {
	if err := o.schedule(); err != nil {
		return err
	}
	p, line := p.withProgress()
	defer line.stop()
	left := timeLeft{windows: o.Windows}
	o.Begins = func(w prove.Window) { line.show(left.of(w)) }
	run := proof{process: p, proveOptions: o, maria: o.dsn == ""}
	if err := run.openRemote(ctx); err != nil {
		return err
	}
	say(p.stdout, "Seed %d, %d replicas and %d clients of each service, %d fault windows",
		o.Seed, o.Replicas, o.Clients, len(o.Windows))
	for _, w := range o.Windows {
		say(p.stdout, "  %s", w)
	}
	report, err := run.groups(ctx)
	if report == nil || err != nil && ctx.Err() != nil {
		return err
	}
	return conclude(report, err, o.Out, p)
}

// timeLeft estimates how long a proof still takes.
type timeLeft struct {
	windows []prove.Window
	begun   time.Time // the first window
}

// of returns the text about the window that begins now. What is left of the windows' time is stretched as the windows
// before were, for judging them takes time too.
func (l *timeLeft) of(w prove.Window) func() string {
	begins := time.Now()
	if l.begun.IsZero() {
		l.begun = begins
	}
	var planned, done time.Duration
	number := 0
	for i, one := range l.windows {
		if one.Name == w.Name {
			number, done = i+1, planned
		}
		planned += one.For
	}
	slower := 1.0
	if done > 0 {
		slower = max(1, float64(begins.Sub(l.begun))/float64(done))
	}
	return func() string {
		left := planned - done - min(time.Since(begins), w.For)
		return fmt.Sprintf("window %s, %d of %d; about %s left",
			w.Name, number, len(l.windows), time.Duration(float64(left)*slower).Round(time.Second))
	}
}

// proof prepares and runs the proof, for `rowlock prove` or `rowlock mutation-test`.
type proof struct {
	process
	proveOptions

	remote *remote.Session // nil: a private server
	// binaries replace the usual ones, by the service's name.
	binaries map[string]string
	maria    bool           // run events on MariaDB too, where it is installed
	leave    []func() error // remove what the run has made, the last one first
}

// groups runs the windows, windows that need their own servers after the others. The report is nil when nothing could
// start.
func (v *proof) groups(ctx context.Context) (whole *prove.Report, err error) {
	for _, windows := range prove.Groups(v.Windows) {
		part := *v
		part.Windows = windows
		report, err := part.run(ctx)
		if errors.Is(err, patroni.ErrNotInstalled) || errors.Is(err, localcitus.ErrNotInstalled) {
			say(v.stdout, "Windows from %s on are skipped: %v.", windows[0].Name, err)
			continue
		}

		switch {
		case whole == nil:
			whole = report
		case report == nil:
			whole.Broken = err.Error()
		default:
			whole.Add(report)
		}
		if err != nil {
			return whole, err
		}
	}
	return whole, nil
}

// conclude saves the report and prints the results. The error of a run that left something behind comes last.
func conclude(report *prove.Report, err error, out string, p process) error {
	if out != "" {
		err = errors.Join(saveProof(report, out), err)
		say(p.stdout, "\nReports: %s and %s", filepath.Join(out, "proof.json"), filepath.Join(out, "proof.html"))
	}
	return errors.Join(summarize(report, p), err)
}

// summarize prints what holds and what does not. A promise that was broken is a violation; a run that failed without
// that is an ordinary error.
func summarize(report *prove.Report, p process) error {
	failures := report.Failures()
	say(p.stdout, "")
	for _, note := range report.Notes {
		say(p.stdout, "Not part of this proof: %s.", note)
	}
	if len(failures) == 0 {
		say(p.stdout, "Every promise held, in %s. Seed %d.", report.Took.Round(time.Second), report.Seed)
		return nil
	}
	for _, f := range failures {
		say(p.stdout, "%s", f)
	}
	if !slices.ContainsFunc(failures, func(f prove.Failure) bool { return !f.OfRun() }) {
		return fmt.Errorf("prove: the run itself failed, and proves nothing; seed %d", report.Seed)
	}
	return violation{report.Seed}
}

// violation reports that a promise was broken. It has its own exit status.
type violation struct{ seed uint64 }

func (v violation) Error() string { return fmt.Sprintf("prove: not proven; seed %d", v.seed) }

// saveProof writes the report as JSON and as a page, over those of an earlier run.
func saveProof(report *prove.Report, dir string) error {
	raw, err := json.MarshalIndent(report, "", "  ")
	var page strings.Builder
	return errors.Join(err, report.WritePage(&page),
		os.MkdirAll(dir, 0o755),
		os.WriteFile(filepath.Join(dir, "proof.json"), append(raw, '\n'), 0o644),
		os.WriteFile(filepath.Join(dir, "proof.html"), []byte(page.String()), 0o644))
}

// run prepares the services in databases of the run, runs the windows and removes
// everything. The report is nil when the run could not start.
func (v *proof) run(ctx context.Context) (report *prove.Report, err error) {
	defer func() {
		for _, leave := range slices.Backward(v.leave) {
			err = errors.Join(err, leave())
		}
	}()

	v.Path = v.environ["PATH"]
	v.Say = func(format string, args ...any) { say(v.stdout, format, args...) }
	switch own := v.Windows[0].Servers(); {
	case v.remote != nil:
		err = v.onRemote(ctx)
	case own == prove.Distributed:
		err = v.onCitus(ctx)
	case own != "":
		err = v.onPair(ctx, own)
	default:
		err = v.onPrivate(ctx)
	}

	for _, s := range v.chosen {
		if err == nil {
			err = v.prepare(ctx, s)
		}
	}

	if err != nil {
		return nil, fmt.Errorf("prove: %w", err)
	}
	return prove.Run(ctx, v.Setup)
}

// onLeave has stop called at the end of the run.
func (v *proof) onLeave(stop func(ctx context.Context) error) {
	v.leave = append(v.leave, func() error {
		ctx, cancel := v.stopping()
		defer cancel()
		return stop(ctx)
	})
}

// prepare makes a service's roles and tables.
func (v *proof) prepare(ctx context.Context, s targets.Service) (err error) {
	path := v.binaries[s.Name]
	if path == "" {
		if path, err = local.Binary(ctx, s.Name, v.stderr); err != nil {
			return err
		}
	}

	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	environ := v.replicaEnviron()
	maps.Copy(environ, s.Environ)
	schema := local.SchemaOf(s)
	if v.remote != nil {
		schema = v.remote.Schema(schema)
	}

	if v.Citus != nil {
		environ["DB_CLUSTER"], schema.LockTimeout = string(sqldb.ClusterCitus), prove.LockTimeout()
	}
	if err := local.Provision(ctx, path, v.Admin, schema, environ); err != nil {
		return err
	}

	prepared := prove.Service{Name: s.Name, Path: path, Worker: s.Worker, Environ: environ}
	v.Services = append(v.Services, prepared)
	if s.Name == targets.Events && v.maria {
		err = v.onMariaDB(ctx, prepared)
	}
	if errors.Is(err, localmaria.ErrNotInstalled) {
		v.Notes = append(v.Notes, "no MariaDB server is installed: events run on PostgreSQL alone")
		return nil
	}
	return err
}

// replicaEnviron returns the environment of the replicas, without what names another
// server and without the administrator's name and password.
func (v *proof) replicaEnviron() map[string]string {
	env := local.Environ(v.environ)
	maps.DeleteFunc(env, func(name, _ string) bool { return strings.HasPrefix(name, "OTEL_") })
	return env
}

// onRemote makes the run's database on the server of --dsn.
func (v *proof) onRemote(ctx context.Context) error {
	v.onLeave(v.remote.Drop)
	v.Admin, v.TLS, v.Shared = v.remote.Admin, v.remote.TLS, v.remote.Server
	say(v.stdout, "On %s; the database and roles of this run are %s and %[2]s_...", v.Shared, v.remote.Name)
	err := v.remote.Create(ctx)
	v.Notes = append(v.Notes, "window restart: only the owner of the server can restart it", "events on MariaDB")
	v.Notes = append(v.Notes, v.remote.Notes...)
	return err
}

// onPrivate starts a server for the run and makes the database there.
func (v *proof) onPrivate(ctx context.Context) error {
	server, err := local.StartPostgres(ctx, database, v.postgres())
	if err != nil {
		return err
	}
	v.Server, v.Admin = server, server.URL(database)
	v.onLeave(server.Stop)
	return nil
}

// postgres returns the options of a server for the run.
func (v *proof) postgres() localpg.Options {
	return localpg.Options{
		Parent: os.TempDir(), Environ: v.environ, Progress: v.stderr,
		Settings: map[string]string{"deadlock_timeout": "5ms"}, // shorter than the services wait for a lock
	}
}

// servers are a primary and a standby.
type servers interface {
	fault.Cluster
	// URL returns the URL of a database, which names both.
	URL(database string) string
	Stop(ctx context.Context) error
}

// onPair starts a primary and a standby for the run and makes the database there.
func (v *proof) onPair(ctx context.Context, own prove.Servers) (err error) {
	const holdBack = time.Second // in which every service acknowledges something
	var pair servers
	switch own {
	case prove.Managed:
		pair, err = patroni.Start(ctx, database, v.postgres())
	case prove.HeldBack:
		pair, err = fault.StartPair(ctx, database, v.postgres(), holdBack)
	case prove.Synchronous:
		pair, err = fault.StartPair(ctx, database, v.postgres(), 0)
	case prove.Distributed: // see onCitus
	}

	if err != nil {
		return err
	}
	v.Cluster, v.Admin, v.maria = pair, pair.URL(database), false
	v.onLeave(pair.Stop)
	return nil
}

// onCitus starts a Citus cluster for the run, for the services that run on it, and makes the database there.
func (v *proof) onCitus(ctx context.Context) (err error) {
	v.chosen = slices.DeleteFunc(slices.Clone(v.chosen), func(s targets.Service) bool {
		away := !v.Windows[0].Has(s.Name)
		if away {
			v.Notes = append(v.Notes, s.Name+": it runs on one primary alone")
		}
		return away
	})
	if v.Citus, err = fault.StartCitus(ctx, database, v.postgres()); err != nil {
		return err
	}
	v.Server, v.Admin, v.maria = v.Citus.Coordinator(), v.Citus.URL(), false
	v.onLeave(v.Citus.Stop)
	return nil
}

// openRemote checks that the server of --dsn can take the run, if there is one.
func (v *proof) openRemote(ctx context.Context) (err error) {
	if v.dsn == "" {
		return nil
	}
	v.remote, err = remote.Open(ctx, v.dsn, v.mostConnections())
	if err != nil && ctx.Err() == nil {
		return usageError{"prove: --dsn: " + err.Error()}
	}
	return err
}

// mostConnections returns how many connections the run may open at once: every pool full,
// and those of one more replica of each service, which starts while another one ends.
func (v *proof) mostConnections() (n int) {
	const (
		ourselves = 8 // the prover's pool
		workers   = 3
	)
	pool, err := strconv.Atoi(v.environ["DB_MAX_OPEN_CONNS"])
	if err != nil || pool < 1 {
		pool = 8
	}
	n = ourselves
	for _, s := range v.chosen {
		n += (v.Replicas + 1) * (pool + s.SecondPool)
		if s.Worker != "" {
			n += workers * pool
		}
	}
	return n
}

// onMariaDB starts a private MariaDB server with events' tables, and an account that can
// only change rows. s is events on PostgreSQL.
func (v *proof) onMariaDB(ctx context.Context, s prove.Service) error {
	server, err := localmaria.Start(ctx, localmaria.Options{Parent: os.TempDir()})
	if err != nil {
		return err
	}
	v.leave = append(v.leave, server.Stop)
	settings := sqldb.Settings{URL: server.URL("mysql"), Engines: []sqldb.Engine{sqldb.MySQL}}
	db, err := sqldb.Open(ctx, settings, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return err
	}
	v.leave = append(v.leave, db.Close)

	const account = "events_app"
	password := rand.Text()
	s.Environ = maps.Clone(s.Environ)
	s.Environ["DATABASE_URL"] = server.URL(s.Name)
	err = errors.Join(
		local.Execute(ctx, db, `CREATE DATABASE `+s.Name), local.Migrate(ctx, s.Path, s.Environ),
		local.Execute(ctx, db, `CREATE USER '`+account+`'@'127.0.0.1' IDENTIFIED BY '`+password+`'`),
		local.Execute(ctx, db, `GRANT SELECT, INSERT, UPDATE, DELETE ON `+s.Name+`.* TO '`+account+`'@'127.0.0.1'`))
	u, urlErr := url.Parse(server.URL(s.Name))
	if err = errors.Join(err, urlErr); err != nil {
		return fmt.Errorf("prepare MariaDB: %w", err)
	}
	u.User = url.UserPassword(account, password)
	s.Environ["DATABASE_URL"] = u.String()
	s.Name, s.Maria = prove.EventsOnMariaDB, &fault.MariaDB{Server: server, DB: db}
	v.Services = append(v.Services, s)
	return nil
}
