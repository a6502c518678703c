package httpserver

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"go.opentelemetry.io/otel/trace"

	"github.com/rowlock/rowlock/platform/problem"
)

// firstPart returns what the server reads of a body before the handler is called.
func firstPart() string { return strings.Repeat("x", readAhead+1) }

// reading is a handler that extends its request and answers how much it read.
func reading(by Allowance) echo.HandlerFunc {
	return func(c echo.Context) error {
		cancel, err := Extend(c, by)
		if err != nil {
			return err
		}
		defer cancel()
		n, err := io.Copy(io.Discard, c.Request().Body)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return c.JSON(http.StatusRequestTimeout, strconv.FormatInt(n, 10))
		}
		if err != nil {
			return err
		}
		if err := c.Request().Context().Err(); err != nil {
			return err
		}
		return c.JSON(http.StatusOK, c.Param("name")+strconv.FormatInt(n, 10))
	}
}

// A body may take longer than RequestTimeout, and than the connection's own
// deadlines, as long as it does not pause.
func TestExtendOutlivesTheRequestTimeout(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{RequestTimeout: 50 * time.Millisecond, MaxBody: 1 << 20})
	// The connection's own deadlines are some seconds beyond; here they are not.
	f.http.ReadTimeout, f.http.WriteTimeout = 100*time.Millisecond, 200*time.Millisecond
	f.handle(http.MethodPost, "/extended/:name", reading(Allowance{Timeout: 20 * time.Second, Patience: 10 * time.Second}))
	addr := f.start(t)
	body := io.MultiReader(strings.NewReader(firstPart()), &paced{4 * minRate, 100 * time.Millisecond})
	want := fmt.Sprintf("%q\n", "a"+strconv.Itoa(len(firstPart())+4*minRate))
	if a := send(t, newClient(t), "POST", "http://"+addr+"/extended/a", body); a.status != 200 || a.body != want {
		t.Errorf("%+v", a)
	}
}

// The new deadline ends the context, whatever REQUEST_TIMEOUT was, and spans go on below the handler's.
func TestExtendedContextEnds(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{RequestTimeout: time.Nanosecond})
	f.handle(http.MethodPost, "/:name", func(c echo.Context) error {
		span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}})
		c.SetRequest(c.Request().WithContext(trace.ContextWithSpanContext(c.Request().Context(), span)))
		cancel, err := Extend(c, Allowance{Timeout: 10 * time.Millisecond, Patience: time.Minute})
		if err != nil {
			return err
		}
		defer cancel()
		if !trace.SpanContextFromContext(c.Request().Context()).Equal(span) {
			t.Error("the handler's span is lost")
		}
		if c.Request().Context().Err() != nil {
			t.Error("the context ended before its new deadline")
		}
		<-c.Request().Context().Done()
		return c.Request().Context().Err()
	})
	wantProblem(t, f.do(t, "POST", "/a", ""), problem.OutcomeUnknown, "")
}

// Once the body has been read, a pause of the client's is nothing: it waits for the answer.
func TestExtendedRequestIsNotEndedByItsOwnReadDeadline(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{MaxBody: 1 << 20})
	f.handle(http.MethodPost, "/:name", func(c echo.Context) error {
		cancel, err := Extend(c, Allowance{Timeout: 20 * time.Second, Patience: 20 * time.Millisecond})
		if err != nil {
			return err
		}
		defer cancel()
		if _, err := io.Copy(io.Discard, c.Request().Body); err != nil {
			return err
		}
		timer := time.NewTimer(200 * time.Millisecond)
		defer timer.Stop()
		select {
		case <-c.Request().Context().Done():
			return c.Request().Context().Err()
		case <-timer.C:
			return c.JSON(http.StatusOK, "done")
		}
	})
	addr, client := f.start(t), newClient(t)
	for _, body := range []string{"x", firstPart() + "x"} {
		a := send(t, client, "POST", "http://"+addr+"/a", strings.NewReader(body))
		if a.status != 200 || a.body != `"done"`+"\n" {
			t.Errorf("%d bytes: %+v", len(body), a)
		}
	}
}
