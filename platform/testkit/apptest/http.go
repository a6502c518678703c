package apptest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/problem"
)

// client keeps enough idle connections for tests with many concurrent callers.
var client = &http.Client{
	// Close idle connections before the server does, which closes an unused one after five seconds: a POST that crosses
	// the server's close is lost.
	Transport: &http.Transport{MaxIdleConnsPerHost: 400, IdleConnTimeout: 2 * time.Second},
	Timeout:   30 * time.Second,
}

// Answer is the answer to a request.
type Answer struct {
	Status int // 0 if there was no answer; Body then holds the error
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

// headerOf returns the header of a request: the names and values in turn. If there is a body, its type is JSON unless
// they set another.
func headerOf(body string, pairs []string) map[string]string {
	header := make(map[string]string)
	if body != "" {
		header["Content-Type"] = "application/json"
	}
	for pair := range slices.Chunk(pairs, 2) {
		header[pair[0]] = pair[1]
	}
	return header
}

// Send sends a request and returns the answer. Any goroutine of the test may call it.
func Send(t *testing.T, method, url, body string, header map[string]string) Answer {
	t.Helper()
	return send(t.Context(), method, url, body, header)
}

// Get sends a GET.
func Get(t *testing.T, url string) Answer {
	t.Helper()
	return send(t.Context(), http.MethodGet, url, "", nil)
}

func send(ctx context.Context, method, url, body string, header map[string]string) Answer {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
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
	err = errors.Join(err, resp.Body.Close())
	if err != nil {
		return Answer{Body: err.Error()}
	}

	a := answer(resp.StatusCode, resp.Header, data)
	a.Took = time.Since(begin)
	return a
}

// answer reads the code and field of a problem; they stay empty for any other body.
func answer(status int, header http.Header, body []byte) Answer {
	var p struct{ Code, Field string }
	if header.Get("Content-Type") == problem.ContentType {
		_ = json.Unmarshal(body, &p)
	}
	return Answer{Status: status, Header: header, Body: string(body), Code: p.Code, Field: p.Field}
}
