package httpserver

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/rowlock/rowlock/platform/problem"
)

func TestDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Config{RequestTimeout: 3 * time.Second})
		f.handle(http.MethodPost, "/", func(c echo.Context) error {
			child, cancel := context.WithCancel(c.Request().Context()) // the handler's own contexts end too
			defer cancel()
			<-child.Done()
			return child.Err()
		})
		start := time.Now()
		w := f.do(t, "POST", "/", "")
		wantProblem(t, w, problem.OutcomeUnknown, "")
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("answered after %v", took)
		}
	})
}

// A header has 5 s. Its connection lasts longer than REQUEST_TIMEOUT, so that the answer at the deadline arrives.
func TestDeadlinesOfTheConnection(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{RequestTimeout: time.Minute})
	if f.http.ReadHeaderTimeout != 5*time.Second {
		t.Errorf("a header has %s", f.http.ReadHeaderTimeout)
	}
	if f.http.ReadTimeout <= time.Minute || f.http.WriteTimeout <= f.http.ReadTimeout {
		t.Errorf("a body has %s, its answer %s", f.http.ReadTimeout, f.http.WriteTimeout)
	}
	if own := newFixture(t, Config{IdleTimeout: time.Hour}); f.http.IdleTimeout != 10*time.Minute ||
		own.http.IdleTimeout != time.Hour {
		t.Errorf("an idle connection has %s, or %s instead of an hour", f.http.IdleTimeout, own.http.IdleTimeout)
	}
}

func TestBodyLimit(t *testing.T) {
	t.Parallel()
	const limit = 100
	f := newFixture(t, Config{MaxBody: limit})
	f.handle(http.MethodPost, "/", func(c echo.Context) error {
		var v struct {
			Text string `json:"text"`
		}
		if err := c.Bind(&v); err != nil {
			return err
		}
		return c.JSON(http.StatusOK, len(v.Text))
	})
	body := func(size int) string { return `{"text":"` + strings.Repeat("x", size-len(`{"text":""}`)) + `"}` }
	if w := f.do(t, "POST", "/", body(limit)); w.Code != http.StatusOK {
		t.Errorf("the limit itself: %d %s", w.Code, w.Body)
	}
	wantProblem(t, f.do(t, "POST", "/", body(limit+1)), problem.BodyTooLarge, "")
	wantProblem(t, f.do(t, "POST", "/nothing", body(limit+1)), problem.NotFound, "")
	wantProblem(t, f.do(t, "PUT", "/", body(limit+1)), problem.MethodNotAllowed, "")

	// A client hears of it although it is still sending, and before it sends when it asks.
	addr, client, start := f.start(t), newClient(t), time.Now()
	for _, size := range []int{limit, limit + 1, 10 << 20} {
		for _, expect := range [][]string{nil, {"Expect", "100-continue"}} {
			declared, chunked := strings.NewReader(body(size)), io.MultiReader(strings.NewReader(body(size)))
			for _, body := range []io.Reader{declared, chunked} {
				a := send(t, client, "POST", "http://"+addr, body, expect...)
				if want := map[bool]int{true: 200, false: 413}[size <= limit]; a.status != want || (want == 413) != a.closed {
					t.Errorf("%d bytes in a %T (%q): %d, close %v", size, body, expect, a.status, a.closed)
				}
			}
		}
	}
	if took := time.Since(start); took >= continueTimeout {
		t.Errorf("a client that asked was not told to continue: the answers took %s", took)
	}
}
