package check

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/codes"

	"github.com/rowlock/rowlock/platform/telemetry"
)

// Target is a running service.
type Target struct {
	// Service is its name; see [Services].
	Service string
	// URL is the address of its API, such as http://rowlock-counts.
	URL string
	// Internal is that of its internal API, where it has one of its own; URL when empty.
	Internal string
}

// Timeout is how long the check of one service may take.
const Timeout = 60 * time.Second

// promise is what is checked of a service: it returns a sentence about what it has seen.
type promise func(ctx context.Context, c *client) (string, error)

func promises() map[string]promise {
	return map[string]promise{
		"counts": counts, "events": events, "iidy": iidy, "payments": payments, "pyggpot": pyggpot,
	}
}

// Services are the names of the services that can be checked.
func Services() []string {
	names := make([]string, 0, len(promises()))
	for name := range promises() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Run checks the targets one after the other, and writes a line for each to w.
// All of them are checked, whatever comes of the first; the errors are joined. Each
// check is a span, below that of ctx where it has one, and takes its trace on to the
// service; a line names the trace that is recorded of it.
func Run(ctx context.Context, w io.Writer, tel *telemetry.Telemetry, targets []Target) error {
	tracer := tel.TracerProvider().Tracer("github.com/rowlock/rowlock/lab/internal/check")
	var errs []error
	for _, t := range targets {
		keeps, known := promises()[t.Service]
		if !known {
			return fmt.Errorf("there is no check of %q, but of %s", t.Service, strings.Join(Services(), ", "))
		}
		ctx, span := tracer.Start(ctx, "check "+t.Service)
		saw, err := one(ctx, keeps, newClient(t, tel))
		if err != nil {
			err = fmt.Errorf("%s: %w", t.Service, err)
			saw = "FAILED: " + err.Error()
			span.SetStatus(codes.Error, "")
		}
		span.End()
		if span.SpanContext().IsSampled() {
			saw += " (trace " + span.SpanContext().TraceID().String() + ")"
		}
		_, writeErr := fmt.Fprintf(w, "%-9s %s\n", t.Service, saw)
		errs = append(errs, err, writeErr)
	}
	return errors.Join(errs...)
}

func one(ctx context.Context, keeps promise, c *client) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	return keeps(ctx, c)
}

// together calls do n times at once and joins the errors.
func together(n int, do func(i int) error) error {
	errs := make([]error, n)
	release := make(chan struct{})
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			<-release
			errs[i] = do(i)
		})
	}
	close(release)
	all.Wait()
	return errors.Join(errs...)
}

// client speaks to one service.
type client struct {
	target Target
	http   *http.Client
}

// answerTimeout is more than REQUEST_TIMEOUT, so that the service says itself what was wrong.
const answerTimeout = 15 * time.Second

func newClient(t Target, tel *telemetry.Telemetry) *client {
	t.URL = strings.TrimSuffix(t.URL, "/")
	t.Internal = strings.TrimSuffix(t.Internal, "/")
	if t.Internal == "" {
		t.Internal = t.URL
	}
	return &client{t, &http.Client{Transport: tel.Transport(&http.Transport{DisableKeepAlives: true}), Timeout: answerTimeout}}
}

// answer is what a service said.
type answer struct {
	status int
	header http.Header
	body   string
}

// largestAnswer bounds what is read of an answer, in bytes.
const largestAnswer = 1 << 20

// send makes one request. A body that begins with a brace is JSON, any other is text. headers are names and values in turn.
func (c *client) send(ctx context.Context, method, url, body string, headers ...string) (a answer, err error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return a, fmt.Errorf("%s %s: %w", method, url, err)
	}
	switch {
	case strings.HasPrefix(body, "{"):
		req.Header.Set("Content-Type", "application/json")
	case body != "":
		req.Header.Set("Content-Type", "text/plain")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return a, fmt.Errorf("%s %s: %w", method, url, err)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, largestAnswer))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return a, fmt.Errorf("%s %s: %w", method, url, err)
	}
	return answer{resp.StatusCode, resp.Header, string(data)}, nil
}

// want is send, with an error unless the status is the one wanted.
func (c *client) want(ctx context.Context, status int, method, url, body string, headers ...string) (answer, error) {
	a, err := c.send(ctx, method, url, body, headers...)
	if err == nil && a.status != status {
		err = fmt.Errorf("%s %s: %d instead of %d: %s", method, url, a.status, status, strings.TrimSpace(a.body))
	}
	return a, err
}
