package targets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/codes"

	"github.com/rowlock/rowlock/platform/telemetry"
)

// CheckTimeout bounds the check of one service.
const CheckTimeout = 60 * time.Second

// Check checks the targets one after the other and writes a line for each to w. It checks all of them even when one
// fails, and joins the errors. Each request has its own connection, so that a balancer spreads them over all replicas.
// Each check is a span below that of ctx, if it has one, and the requests carry its trace on; the line names the trace
// when it is recorded.
func Check(ctx context.Context, w io.Writer, tel *telemetry.Telemetry, targets []Target) error {
	tracer := tel.TracerProvider().Tracer("github.com/rowlock/rowlock/lab/internal/targets")
	client := &http.Client{
		Transport: traced{next: &http.Transport{DisableKeepAlives: true}, tracer: tracer, propagator: tel.Propagator()},
		Timeout:   answerTimeout,
	}
	errs := make([]error, 0, 2*len(targets))
	for _, t := range targets {
		ctx, span := tracer.Start(ctx, "check "+t.Service)
		found, err := checkOne(ctx, client, t)
		if err != nil {
			err = fmt.Errorf("%s: %w", t.Service, err)
			found = "FAILED: " + err.Error()
			span.SetStatus(codes.Error, "")
		}
		span.End()
		if span.SpanContext().IsSampled() {
			found += " (trace " + span.SpanContext().TraceID().String() + ")"
		}
		_, writeErr := fmt.Fprintf(w, "%-9s %s\n", t.Service, found)
		errs = append(errs, err, writeErr)
	}
	return errors.Join(errs...)
}

func checkOne(ctx context.Context, client *http.Client, t Target) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, CheckTimeout)
	defer cancel()
	w, err := open(t, Once(client))
	if err != nil {
		return "", err
	}
	return w.check(ctx)
}
