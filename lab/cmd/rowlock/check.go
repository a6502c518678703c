package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel/propagation"

	"github.com/rowlock/rowlock/lab/internal/targets"
	"github.com/rowlock/rowlock/platform/lifecycle"
	"github.com/rowlock/rowlock/platform/telemetry"
)

func newCheck(p process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check --SERVICE=URL...",
		Short: "Check running services against their promises",
		Long: `Send concurrent requests to running services, and compare what is stored with what was answered.

With an endpoint in the OTEL_* variables each check is a trace from here to the services' statements; TRACEPARENT
names its parent.`,
		Example: "  rowlock check --counts=http://127.0.0.1:8083 --iidy=http://127.0.0.1:8084",
		Args:    noWords,
	}
	var tokenFile string
	var asJSON bool
	tokenFlag(cmd, &tokenFile)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object instead of a line for each service")
	asked := make([]targets.Target, len(targets.All()))
	for i, s := range targets.All() {
		asked[i].Service = s.Name
		cmd.Flags().StringVar(&asked[i].URL, s.Name, "", "`URL` of "+s.Name)
		if s.InternalPath != "" {
			cmd.Flags().StringVar(&asked[i].Internal, s.Name+"-internal", "",
				"`URL` of its internal API where that has a listener of its own")
		}
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var named []targets.Target
		for _, t := range asked {
			t.TokenFile = tokenFile
			if t.URL != "" {
				named = append(named, t)
			}
		}
		if len(named) == 0 {
			return usageError{"check needs the address of at least one service, such as --counts=http://127.0.0.1:8083"}
		}
		return runCheck(cmd.Context(), p, named, asJSON)
	}
	return cmd
}

// tokenFlag defines --token-file.
func tokenFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVar(file, "token-file", "", "`file` with the token to call by, which may change meanwhile")
}

func runCheck(ctx context.Context, p process, asked []targets.Target, asJSON bool) error {
	p, line := p.withProgress()
	defer line.stop()
	tel, err := telemetry.New(ctx, telemetry.Config{
		Service: "rowlock", Version: lifecycle.Version(), LogFormat: "text", Output: p.stderr,
		Environ: p.environ, CaptureGlobals: p.globals,
	})
	if err != nil {
		return err
	}
	ctx = withParent(ctx, tel.Propagator(), p.environ)
	err = checkAll(ctx, p.stdout, line, tel, asked, asJSON)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	if lost := tel.Shutdown(ctx); lost != nil {
		tel.Logger().WarnContext(ctx, "the last spans were not sent", slog.Any("error", lost))
	}
	return err
}

// checkReport is what check --json prints.
type checkReport struct {
	// OK says that every check holds.
	OK     bool         `json:"ok"`
	Checks []checkFound `json:"checks"`
}

// checkFound is the check of one service.
type checkFound struct {
	Name string `json:"name"`
	// Outcome is "holds" or "fails".
	Outcome string `json:"outcome"`
	// Sentence says what was found, or what failed.
	Sentence string `json:"sentence"`
}

// checkAll checks one service after the other and prints what was found.
func checkAll(
	ctx context.Context, out io.Writer, line *progress, tel *telemetry.Telemetry, asked []targets.Target, asJSON bool,
) (err error) {
	report := checkReport{OK: true}
	for i, t := range asked {
		begun := time.Now()
		line.show(func() string {
			return fmt.Sprintf("checking %s, %d of %d, %s", t.Service, i+1, len(asked), since(begun))
		})
		sentence, failed := targets.Check(ctx, tel, t)
		found := checkFound{t.Service, "holds", sentence}
		if failed != nil {
			report.OK, found = false, checkFound{t.Service, "fails", failed.Error()}
			sentence = "FAILED: " + failed.Error()
			err = errors.Join(err, failed)
		}
		report.Checks = append(report.Checks, found)

		if !asJSON {
			_, writeErr := fmt.Fprintf(out, "%-9s %s\n", t.Service, sentence)
			err = errors.Join(err, writeErr)
		}
	}
	if asJSON {
		err = errors.Join(err, json.NewEncoder(out).Encode(report))
	}
	return err
}

// flushTimeout bounds the export of the last spans.
const flushTimeout = 5 * time.Second

// withParent takes the parent span from OpenTelemetry's carriers in the environment: by default TRACEPARENT and
// TRACESTATE.
func withParent(
	ctx context.Context, propagator propagation.TextMapPropagator, environ map[string]string,
) context.Context {
	carrier := propagation.MapCarrier{}
	for _, field := range propagator.Fields() {
		carrier[field] = environ[strings.ToUpper(strings.ReplaceAll(field, "-", "_"))]
	}
	return propagator.Extract(ctx, carrier)
}

// longestDrive bounds a load whose standard input does not end.
const longestDrive = 15 * time.Minute

func newDrive(p process) *cobra.Command {
	var load targets.Load
	var limit time.Duration
	cmd := &cobra.Command{
		Use:   "drive SERVICE URL [INTERNAL-URL]",
		Short: "Send load until standard input ends, then check the sums",
		Long: "Send load to a running service until standard input ends, then compare what is stored with\n" +
			"what was answered. The report is one line of JSON.",
		Example:   "  rowlock drive counts http://127.0.0.1:8083 --rate 200 --for 1m",
		ValidArgs: targets.Names(),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 || len(args) > 3 {
				return usageError{fmt.Sprintf("drive needs a service (%s), its URL, and that of its internal API if there is one",
					strings.Join(targets.Names(), ", "))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			load.Service, load.URL = args[0], args[1]
			if len(args) > 2 {
				load.Internal = args[2]
			}
			if err := load.Validate(); err != nil {
				return usageError{fmt.Sprintf("drive: %v", err)}
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), limit)
			defer cancel()
			return runDrive(ctx, p, load)
		},
	}

	cmd.Flags().IntVar(&load.Rate, "rate", 100, "operations that begin per second")
	cmd.Flags().IntVar(&load.Clients, "clients", 16, "operations in flight at most")
	tokenFlag(cmd, &load.TokenFile)
	cmd.Flags().DurationVar(&limit, "for", longestDrive, "end after this time at the latest")
	return cmd
}

func runDrive(ctx context.Context, p process, load targets.Load) error {
	p, line := p.withProgress()
	defer line.stop()
	load.Begun = func() {
		say(p.stderr, "the load on %s begins", load.Service)
		begun := time.Now()
		line.show(func() string { return fmt.Sprintf("load on %s for %s", load.Service, since(begun)) })
	}
	report, err := targets.Drive(ctx, load, inputEnd(p.stdin))
	if err != nil {
		return err
	}
	if err := json.NewEncoder(p.stdout).Encode(report); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// inputEnd returns a channel that is closed when in ends.
func inputEnd(in io.Reader) <-chan struct{} {
	end := make(chan struct{})
	go func() {
		defer close(end)
		_, _ = io.Copy(io.Discard, in) // an error ends it too
	}()
	return end
}
