package targets

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/codes"

	"github.com/rowlock/rowlock/platform/telemetry"
)

// CheckTimeout bounds the check of one service.
const CheckTimeout = 60 * time.Second

// Check checks a target and returns what was found, or an error that names the service. Each request has its own
// connection, so that a balancer spreads them over all replicas. The check is a span below that of ctx, if it has one,
// and the requests carry its trace on; the trace is named at the end when it is recorded.
func Check(ctx context.Context, tel *telemetry.Telemetry, t Target) (found string, err error) {
	tracer := tel.TracerProvider().Tracer("github.com/rowlock/rowlock/lab/internal/targets")
	client := &http.Client{
		Transport: traced{next: &http.Transport{DisableKeepAlives: true}, tracer: tracer, propagator: tel.Propagator()},
		Timeout:   answerTimeout,
	}

	ctx, span := tracer.Start(ctx, "check "+t.Service)
	defer span.End()
	trace := ""
	if span.SpanContext().IsSampled() {
		trace = " (trace " + span.SpanContext().TraceID().String() + ")"
	}

	found, err = checkOne(ctx, client, t)
	if err != nil {
		span.SetStatus(codes.Error, "")
		return "", fmt.Errorf("%s: %w%s", t.Service, err, trace)
	}
	return found + trace, nil
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
