package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"go.opentelemetry.io/otel/propagation"

	"github.com/rowlock/rowlock/lab/internal/check"
	"github.com/rowlock/rowlock/platform/lifecycle"
	"github.com/rowlock/rowlock/platform/telemetry"
)

// runCheck is `rowlock check --SERVICE=URL ...`: it checks the services that are named, wherever they run. With an
// endpoint in the OTEL_* variables each check is a trace from here to the services' statements.
func runCheck(ctx context.Context, p process, args []string) error {
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	flags.SetOutput(p.stderr)
	apis, internals := map[string]*string{}, map[string]*string{}
	for _, name := range check.Services() {
		apis[name] = flags.String(name, "", "`URL` of "+name)
		internals[name] = flags.String(name+"-internal", "", "`URL` of its internal API, if it has one of its own")
	}
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return flag.ErrHelp
		}
		return usageError{fmt.Sprintf("check: %v", err)}
	}
	if flags.NArg() > 0 {
		return usageError{fmt.Sprintf("check: what does %q mean?", strings.Join(flags.Args(), " "))}
	}
	var targets []check.Target
	for _, name := range check.Services() {
		if *apis[name] != "" {
			targets = append(targets, check.Target{Service: name, URL: *apis[name], Internal: *internals[name]})
		}
	}
	if len(targets) == 0 {
		return usageError{"check needs the address of at least one service, such as --counts=http://127.0.0.1:8083"}
	}
	tel, err := telemetry.New(ctx, telemetry.Config{
		Service: "rowlock", Version: lifecycle.Version(), LogFormat: "text", Output: p.stderr,
		Environ: p.environ, CaptureGlobals: p.globals,
	})
	if err != nil {
		return err
	}
	ctx = called(ctx, p.environ)
	err = check.Run(ctx, p.stdout, tel, targets)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastSpansWithin)
	defer cancel()
	if lost := tel.Shutdown(ctx); lost != nil {
		tel.Logger().WarnContext(ctx, "the last spans were not sent", slog.Any("error", lost))
	}
	return err
}

// lastSpansWithin bounds the wait for a collector that is away or slow.
const lastSpansWithin = 5 * time.Second

// called is the context of a program that somebody's trace has started: TRACEPARENT and
// TRACESTATE name it, as OpenTelemetry's specification of environment variables as
// carriers has it, and tools that run pipelines set them.
func called(ctx context.Context, environ map[string]string) context.Context {
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{
		"traceparent": environ["TRACEPARENT"], "tracestate": environ["TRACESTATE"],
	})
}
