package main

import (
	"context"
	"log/slog"
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
	tokenFlag(cmd, &tokenFile)
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
			if t.TokenFile = tokenFile; t.URL != "" {
				named = append(named, t)
			}
		}
		if len(named) == 0 {
			return usageError{"check needs the address of at least one service, such as --counts=http://127.0.0.1:8083"}
		}
		return runCheck(cmd.Context(), p, named)
	}
	return cmd
}

// tokenFlag defines --token-file.
func tokenFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVar(file, "token-file", "", "`file` with the token to call by, which may change meanwhile")
}

func runCheck(ctx context.Context, p process, asked []targets.Target) error {
	tel, err := telemetry.New(ctx, telemetry.Config{
		Service: "rowlock", Version: lifecycle.Version(), LogFormat: "text", Output: p.stderr,
		Environ: p.environ, CaptureGlobals: p.globals,
	})
	if err != nil {
		return err
	}
	ctx = withParent(ctx, p.environ)
	err = targets.Check(ctx, p.stdout, tel, asked)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	if lost := tel.Shutdown(ctx); lost != nil {
		tel.Logger().WarnContext(ctx, "the last spans were not sent", slog.Any("error", lost))
	}
	return err
}

// flushTimeout bounds the export of the last spans.
const flushTimeout = 5 * time.Second

// withParent takes the parent span from TRACEPARENT and TRACESTATE, OpenTelemetry's carriers in the environment.
func withParent(ctx context.Context, environ map[string]string) context.Context {
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{
		"traceparent": environ["TRACEPARENT"], "tracestate": environ["TRACESTATE"],
	})
}
