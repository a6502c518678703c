package httpserver

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/rowlock/rowlock/platform/problem"
)

// crowd is a server with a route that a test ends, and whose requests it starts one after the other.
type crowd struct {
	*fixture

	entered chan string // the name of each request that has a permit
	release chan struct{}
	answers chan *httptest.ResponseRecorder
}

func newCrowd(t *testing.T, cfg Config) *crowd {
	t.Helper()
	const most = 100
	c := &crowd{
		fixture: newFixture(t, cfg), entered: make(chan string, most), release: make(chan struct{}),
		answers: make(chan *httptest.ResponseRecorder, most),
	}
	c.handle(http.MethodPost, "/:name", func(e echo.Context) error {
		c.entered <- e.Param("name")
		<-c.release
		return answer(e)
	})
	return c
}

// come sends requests named 0 to n-1, each of which waits, with a permit or for one, before the next is sent.
func (c *crowd) come(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		go func() { c.answers <- c.do(t, "POST", "/"+strconv.Itoa(i), "") }()
		synctest.Wait()
	}
}

func TestWaitsForAPermit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const held, waiting = 2, 10
		c := newCrowd(t, Config{MaxInFlight: held})
		start := time.Now()
		c.come(t, held+waiting)
		if got := len(c.admission.permits); got != held {
			t.Errorf("%d requests in flight, want %d", got, held)
		}
		for range held + waiting {
			time.Sleep(time.Millisecond)
			c.release <- struct{}{}
			synctest.Wait()
		}
		for i := range held + waiting {
			if w := <-c.answers; w.Code != http.StatusOK {
				t.Errorf("an answer is %d %s", w.Code, w.Body)
			}
			if name := <-c.entered; name != strconv.Itoa(i) {
				t.Errorf("request %s came before request %d", name, i)
			}
		}
		if took := time.Since(start); took != (held+waiting)*time.Millisecond {
			t.Errorf("the last answer came after %s", took)
		}
		wantMetric(t, c.registry, `http_server_requests_in_flight{server="api"}`, 0)
	})
}

func TestRefusesWithoutAPermit(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		timeout time.Duration
		leave   bool // the client leaves after 10 ms
		waiting int  // others that wait already
		want    time.Duration
	}{
		"after a while":              {want: permitWait},
		"when too many wait already": {waiting: waitingPerPermit, want: 0},
		"at the request's deadline":  {timeout: 100 * time.Millisecond, want: 100 * time.Millisecond},
		"when the client leaves":     {leave: true, want: 10 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newCrowd(t, Config{MaxInFlight: 1, RequestTimeout: test.timeout})
				c.come(t, 1+test.waiting)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if test.leave {
					time.AfterFunc(10*time.Millisecond, cancel)
				}
				start, w := time.Now(), httptest.NewRecorder()
				c.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "POST", "/late", http.NoBody))
				wantProblem(t, w, problem.Overloaded, "")
				wantProblem(t, c.do(t, "GET", "/not/served", ""), problem.NotFound, "")
				wantMetric(t, c.registry, `http_server_requests_in_flight{server="api"}`, 1)
				if took := time.Since(start); took != test.want {
					t.Errorf("refused after %s, want %s", took, test.want)
				}
				close(c.release)
				for range 1 + test.waiting {
					if w := <-c.answers; w.Code != http.StatusOK {
						t.Errorf("a request before it is %d %s", w.Code, w.Body)
					}
				}
				if waiting := c.admission.waiting.Load(); waiting != 0 {
					t.Errorf("%d requests wait", waiting)
				}
			})
		})
	}
}
