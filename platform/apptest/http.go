package apptest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/problem"
)

// client keeps enough connections for the tests' crowds.
var client = &http.Client{ //nolint:gochecknoglobals // safe for concurrent use
	// Idle connections are closed before the server closes them, after five seconds for one that carried no request: a
	// POST that meets the server's close is lost.
	Transport: &http.Transport{MaxIdleConnsPerHost: 400, IdleConnTimeout: 2 * time.Second},
	Timeout:   30 * time.Second,
}

// Answer is the answer to a request.
type Answer struct {
	Status int // 0 without an answer; then Body says why
	Header http.Header
	Body   string
	Code   string // of a problem
	Field  string // of a problem
	Took   time.Duration
}

// String returns the status and the body.
func (a Answer) String() string { return fmt.Sprintf("%d %s", a.Status, a.Body) }

// JSON returns the header of a request whose body is JSON.
func JSON() map[string]string { return map[string]string{"Content-Type": "application/json"} }

// Send sends a request and returns the answer. Any goroutine of the test may call it.
func Send(t *testing.T, method, url, body string, header map[string]string) Answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return Answer{Body: err.Error()}
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	begin := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		return Answer{Body: err.Error()}
	}
	data, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return Answer{Body: err.Error()}
	}
	a := answer(t, resp.StatusCode, resp.Header, data)
	a.Took = time.Since(begin)
	return a
}

// answer reads code and field of a problem.
func answer(t testing.TB, status int, header http.Header, body []byte) Answer {
	t.Helper()
	a := Answer{Status: status, Header: header, Body: string(body)}
	if header.Get("Content-Type") == problem.ContentType {
		var p struct{ Code, Field string }
		if err := json.Unmarshal(body, &p); err != nil {
			t.Errorf("not a problem: %s", a)
		}
		a.Code, a.Field = p.Code, p.Field
	}
	return a
}

// Get sends a GET.
func Get(t *testing.T, url string) Answer {
	t.Helper()
	return Send(t, http.MethodGet, url, "", nil)
}
