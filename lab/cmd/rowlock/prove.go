package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rowlock/rowlock/lab/internal/guest"
	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/lab/internal/prove"
	"github.com/rowlock/rowlock/lab/internal/services"
	"github.com/rowlock/rowlock/platform/localmaria"
)

// proveOptions is the command line of `rowlock prove`.
type proveOptions struct {
	services []services.Service
	replicas int
	clients  int
	length   time.Duration
	seed     uint64
	faults   []string
	out      string
	maria    bool // events on MariaDB too, where there is one
	dsn      string
}

// shortestWindow leaves room for a fault, its timeouts and the second of quiet before and after.
const shortestWindow = 8 * time.Second

func newProve(p process) *cobra.Command {
	o := proveOptions{maria: true}
	var names []string
	cmd := &cobra.Command{
		Use: "prove", Short: "Inject faults into the running system and check the promises", Args: noWords,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(names); err != nil {
				return err
			}
			return runProve(cmd.Context(), p, o)
		},
	}
	flags := cmd.Flags()
	serviceFlag(cmd, &names, "prove")
	flags.IntVar(&o.replicas, "replicas", 3, "replicas of each service")
	flags.IntVar(&o.clients, "clients", 8, "clients of each service")
	flags.DurationVar(&o.length, "for", 3*time.Minute, "length of all fault windows together")
	flags.Uint64Var(&o.seed, "seed", rand.Uint64N(1<<32), "seed of the schedule")
	randomSeed(flags)
	flags.StringSliceVar(&o.faults, "faults", nil, "comma-separated fault windows instead of all: "+strings.Join(prove.Names(), ","))
	dsnFlag(flags, &o.dsn)
	flags.StringVar(&o.out, "out", filepath.Join(".tmp", "proof"),
		"folder for proof.json, proof.html and pictures of violations; empty for none")
	return cmd
}

// validate checks the flags and finds the services of those names.
func (o *proveOptions) validate(names []string) error {
	if o.replicas < 2 || o.replicas > 10 || o.clients < 1 || o.clients > 64 {
		return usageError{"prove: --replicas must be between 2 and 10, --clients between 1 and 64"}
	}
	all, err := choose(names)
	if err != nil {
		return err
	}
	for _, s := range all {
		if slices.Contains(prove.Provable(), s.Name) {
			o.services = append(o.services, s)
		} else if len(names) > 0 {
			return usageError{fmt.Sprintf("prove: there is no proof of %s; there is one of %s", s.Name, strings.Join(prove.Provable(), ", "))}
		}
	}
	return nil
}

// runProve is `rowlock prove`.
func runProve(ctx context.Context, p process, o proveOptions) error {
	n := len(prove.Names())
	if len(o.faults) > 0 {
		n = len(o.faults)
	}
	length := o.length / time.Duration(n)
	if length < shortestWindow {
		return usageError{fmt.Sprintf("prove: %s for %d windows are less than %s for each", o.length, n, shortestWindow)}
	}
	windows, err := prove.Schedule(o.seed, length, o.faults)
	if err != nil {
		return usageError{"prove: " + err.Error()}
	}
	if err := somethingIsLeft(o, windows); err != nil {
		return err
	}
	host, err := look(ctx, p, "prove", o)
	if err != nil {
		return err
	}
	say(p.stdout, "Seed %d, %d replicas and %d clients of each service, %d windows of %s", o.seed, o.replicas, o.clients, n, round(length))
	for _, w := range windows {
		line := w.String()
		if host != nil {
			line = w.AsGuest()
		}
		say(p.stdout, "  %s", line)
	}
	report, err := prover{process: p, options: o, windows: windows, host: host}.run(ctx)
	if report == nil || ctx.Err() != nil {
		return err
	}
	say(p.stdout, "")
	return conclude(report, err, o.out, p)
}

// conclude tells and saves what came of a run. What it could not give back is said last.
func conclude(report *prove.Report, err error, out string, p process) error {
	return errors.Join(report.WriteTable(p.stdout), saveProof(report, out, p), verdict(report, p), err)
}

// verdict says what holds. A promise that was broken is a violation; a run that failed
// by itself is an error like others.
func verdict(report *prove.Report, p process) error {
	failures := report.Failures()
	if len(failures) == 0 {
		say(p.stdout, "\nEverything that was promised held, in %s. Seed %d.", round(report.Took), report.Seed)
		sayMissing(p.stdout, report)
		return nil
	}
	say(p.stdout, "")
	sayMissing(p.stdout, report)
	for _, f := range failures {
		say(p.stdout, "%s", f)
	}
	if !slices.ContainsFunc(failures, func(f prove.Failure) bool { return !f.OfRun() }) {
		return fmt.Errorf("prove: the run itself failed, and proves nothing; seed %d", report.Seed)
	}
	return violation{report.Seed}
}

// violation is the end of a run that found something: it has an exit status of its
// own, since a run that fails by itself proves nothing.
type violation struct{ seed uint64 }

func (v violation) Error() string { return fmt.Sprintf("prove: not proven; seed %d", v.seed) }

// prover is one run.
type prover struct {
	process

	options proveOptions
	windows []prove.Window
	// host is the server of others that the run is a guest on; nil for one of its own.
	host *guest.Server
	// binaries are those of services that are not the usual ones.
	binaries map[string]string
	enough   func(*prove.Report) bool
}

func (v prover) run(ctx context.Context) (report *prove.Report, err error) {
	sys := prove.System{Replicas: v.options.replicas, Path: v.environ["PATH"]}
	binaries := map[string]string{}
	for _, s := range v.options.services {
		if binaries[s.Name] = v.binaries[s.Name]; binaries[s.Name] != "" {
			continue
		}
		if binaries[s.Name], err = local.Binary(ctx, s.Name, v.stderr); err != nil {
			return nil, err
		}
	}
	schema, leave, err := v.enter(ctx, &sys)
	defer func() {
		left, failed := leave(ctx)
		if failed != nil {
			err = errors.Join(err, leaveError{failed})
		}
		if report != nil {
			report.LeftBehind = left
		}
	}()
	if err != nil {
		return nil, err
	}
	// All names are known to leave before the first one is made.
	schemas := make([]local.Schema, len(v.options.services))
	for i, s := range v.options.services {
		schemas[i] = schema(local.SchemaOf(s))
	}
	return interruptible(ctx, endTimeout, func() (*prove.Report, error) { return v.prove(ctx, sys, schemas, binaries) })
}

// prepareTimeout bounds the making of a service's roles and tables.
const prepareTimeout = time.Minute

// prove prepares the services in the run's database, and breaks them.
func (v prover) prove(
	ctx context.Context, sys prove.System, schemas []local.Schema, binaries map[string]string,
) (report *prove.Report, err error) {
	for i, s := range v.options.services {
		r := &running{service: s, binary: binaries[s.Name], environ: v.replicaEnviron()}
		bounded, cancel := context.WithTimeout(ctx, prepareTimeout)
		err := r.prepare(bounded, sys.Admin, schemas[i])
		cancel()
		if err != nil {
			return nil, fmt.Errorf("prove: %w", err)
		}
		r.environ["FINGERPRINT_SECRET"] = "of the proof"
		sys.Services = append(sys.Services, prove.Service{
			Name: s.Name, Path: binaries[s.Name], Worker: s.Worker, Environ: r.environ,
		})
	}
	if binary := binaries[services.Events]; v.options.maria && binary != "" {
		service, stop, failed := v.eventsOnMariaDB(ctx, binary)
		switch {
		case errors.Is(failed, localmaria.ErrNotInstalled):
			say(v.stdout, "No MariaDB server is installed: events are proven on PostgreSQL alone")
		case failed != nil:
			return nil, fmt.Errorf("prove: %w", failed)
		default:
			defer func() { err = errors.Join(err, stop()) }()
			sys.Services = append(sys.Services, service)
		}
	}
	screen := &screen{out: v.stdout, terminal: isTerminal(v.stdout)}
	return prove.Run(ctx, sys, prove.Options{
		Seed: v.options.seed, Windows: v.windows, Clients: v.options.clients, Pace: 40 * time.Millisecond,
		Pictures: v.options.out, Enough: v.enough, Say: screen.say, Live: screen.liveLine(),
	})
}

// saveProof writes the report as JSON and as a page, over those of the last time.
func saveProof(report *prove.Report, dir string, p process) error {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("prove: make the folder for the proof: %w", err)
	}
	raw, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return fmt.Errorf("prove: encode the proof: %w", err)
	}
	path := filepath.Join(dir, "proof.json")
	if err := os.WriteFile(path, append(raw, '\n'), 0o644); err != nil {
		return fmt.Errorf("prove: save the proof: %w", err)
	}
	page := filepath.Join(dir, "proof.html")
	var text strings.Builder
	if err := report.WritePage(&text); err != nil {
		return err
	}
	if err := os.WriteFile(page, []byte(text.String()), 0o644); err != nil {
		return fmt.Errorf("prove: save the page: %w", err)
	}
	say(p.stdout, "\nReports: %s and %s", path, page)
	return nil
}
