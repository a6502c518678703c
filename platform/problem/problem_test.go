package problem_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/problem"
)

// The error table of the design, section 2.
func TestTheTable(t *testing.T) {
	t.Parallel()
	var rows []string
	for _, k := range []problem.Kind{
		problem.InvalidJSON, problem.InvalidField, problem.CrossSite, problem.NotFound, problem.MethodNotAllowed,
		problem.BodyTooLarge, problem.UnsupportedMediaType, problem.NotApplied, problem.DatabaseUnavailable,
		problem.Overloaded, problem.OutcomeUnknown, problem.Internal,
		problem.Define("COUNT_OVERFLOW", 422, "The count would overflow"),
	} {
		rows = append(rows, fmt.Sprintf("%s %d %s", k.Code(), k.Status(), k.New("").Detail()))
	}
	const want = `INVALID_JSON 400 Bad Request
INVALID_FIELD 400 Bad Request
CROSS_SITE 403 Forbidden
NOT_FOUND 404 Not Found
METHOD_NOT_ALLOWED 405 Method Not Allowed
BODY_TOO_LARGE 413 Request Entity Too Large
UNSUPPORTED_MEDIA_TYPE 415 Unsupported Media Type
NOT_APPLIED 503 Service Unavailable
DATABASE_UNAVAILABLE 503 Service Unavailable
OVERLOADED 503 Service Unavailable
OUTCOME_UNKNOWN 500 Internal Server Error
INTERNAL 500 Internal Server Error
COUNT_OVERFLOW 422 The count would overflow`
	if got := strings.Join(rows, "\n"); got != want {
		t.Errorf("the table is\n%s\nwant\n%s", got, want)
	}
}

func TestTableOfErrors(t *testing.T) {
	t.Parallel()
	missing, bad := errors.New("it is missing"), errors.New("it is bad")
	table := problem.Table{
		{Err: missing, Kind: problem.NotFound, Detail: "There is none.", Field: "id", RetryAfter: time.Second},
		{Err: bad, Kind: problem.InvalidField},
		{Err: missing, Kind: problem.Internal},
	}
	err := fmt.Errorf("read: %w", missing)
	p := table.Of(err)
	if p.Kind() != problem.NotFound || p.Detail() != "There is none." || p.Field() != "id" ||
		p.RetryAfter() != time.Second || !errors.Is(p, err) {
		t.Errorf("%+v", p)
	}
	if p := table.Of(fmt.Errorf("%w: empty", bad)); p.Detail() != "It is bad: empty." || p.Field() != "" {
		t.Errorf("%+v", p)
	}
	if p := table.Of(errors.New("another")); p != nil {
		t.Errorf("an error of no row became %v", p)
	}
}

func TestWrite(t *testing.T) {
	t.Parallel()
	cause := errors.New(`pq: duplicate key, DETAIL: Key (item_id)=(4242) already exists`)
	tests := map[string]struct {
		err     *problem.Error
		traceID string
		status  int
		body    string
		header  map[string]string
	}{
		"all members": {
			problem.InvalidField.New("amount must be at least 1.", problem.Field("amount"), problem.Cause(cause)),
			"0af7651916cd43dd8448eb211c80319c", 400,
			`{"type":"about:blank","title":"Bad Request","status":400,"detail":"amount must be at least 1.",` +
				`"code":"INVALID_FIELD","trace_id":"0af7651916cd43dd8448eb211c80319c","field":"amount"}`,
			map[string]string{"Retry-After": "", "Cache-Control": "no-store"},
		},
		"empty ones left out, the title for a detail": {
			problem.NotFound.New(""), "", 404,
			`{"type":"about:blank","title":"Not Found","status":404,"detail":"Not Found","code":"NOT_FOUND"}`, nil,
		},
		"header": {
			problem.MethodNotAllowed.New("Use GET.", problem.Header("Allow", "GET, HEAD")), "", 405,
			`{"type":"about:blank","title":"Method Not Allowed","status":405,"detail":"Use GET.","code":"METHOD_NOT_ALLOWED"}`,
			map[string]string{"Allow": "GET, HEAD"},
		},
		"no escaping for HTML, and what is no UTF-8 is replaced": {
			problem.InvalidJSON.New("<a> & \"b\" \xff\n"),
			"",
			400,
			`{"type":"about:blank","title":"Bad Request","status":400,"detail":"<a> & \"b\" ` +
				`\ufffd` + `\n","code":"INVALID_JSON"}`,
			nil,
		},
		"wait rounded up": {
			problem.Overloaded.New("Full.", problem.RetryAfter(1001*time.Millisecond)), "", 503,
			`{"type":"about:blank","title":"Service Unavailable","status":503,"detail":"Full.","code":"OVERLOADED"}`,
			map[string]string{"Retry-After": "2"},
		},
		"wait with another status": {
			problem.Define("PAYMENT_PROCESSING", 409, "").New("In flight.", problem.RetryAfter(time.Nanosecond)), "", 409,
			`{"type":"about:blank","title":"Conflict","status":409,"detail":"In flight.","code":"PAYMENT_PROCESSING"}`,
			map[string]string{"Retry-After": "1"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rec := httptest.NewRecorder()
			if err := problem.Write(rec, tt.err, tt.traceID); err != nil {
				t.Fatalf("Write: %v", err)
			}
			if rec.Code != tt.status || rec.Body.String() != tt.body+"\n" {
				t.Errorf("got %d %s\nwant %d %s", rec.Code, rec.Body, tt.status, tt.body)
			}
			if strings.Contains(rec.Body.String(), "4242") {
				t.Error("the cause reached the client")
			}
			if got := rec.Header().Get("Content-Type"); got != "application/problem+json" {
				t.Errorf("Content-Type %q", got)
			}
			if got := rec.Header().Get("Content-Length"); got != strconv.Itoa(rec.Body.Len()) {
				t.Errorf("Content-Length %q for %d bytes", got, rec.Body.Len())
			}
			for key, want := range tt.header {
				if got := rec.Header().Get(key); got != want {
					t.Errorf("%s: %q, want %q", key, got, want)
				}
			}
		})
	}
}

// Every 503 says when to come back, and not the same to all.
func TestRetryAfterIsJittered(t *testing.T) {
	t.Parallel()
	seen := map[time.Duration]bool{}
	for range 300 {
		e := problem.NotApplied.New("Busy.")
		if e.RetryAfter() < time.Second || e.RetryAfter() > 3*time.Second {
			t.Fatalf("RetryAfter = %s, want 1 to 3 s", e.RetryAfter())
		}
		seen[e.RetryAfter()] = true
	}
	if len(seen) != 3 {
		t.Errorf("300 errors gave %d different waits, want 3", len(seen))
	}
	if e := problem.DatabaseUnavailable.New("Away.", problem.RetryAfter(-time.Second)); e.RetryAfter() < time.Second {
		t.Errorf("a negative wait gave %s", e.RetryAfter())
	}
	if e := problem.OutcomeUnknown.New("Who knows."); e.RetryAfter() != 0 {
		t.Errorf("OUTCOME_UNKNOWN asks for a repeat after %s", e.RetryAfter())
	}
}

func TestError(t *testing.T) {
	t.Parallel()
	cause := errors.New("lock timeout")
	e := problem.NotApplied.New("The row is held by someone else.", problem.Cause(cause))
	if got, want := e.Error(), "NOT_APPLIED: The row is held by someone else.: lock timeout"; got != want {
		t.Errorf("Error() = %q, want %q", got, want)
	}
	if bare := problem.Internal.New("A bug."); bare.Error() != "INTERNAL: A bug." || bare.Unwrap() != nil {
		t.Errorf("without a cause: %q, %v", bare.Error(), bare.Unwrap())
	}
}

// A sentinel's problem is made once and answered by many requests: what a middleware does to the headers of one answer
// must not reach the others.
func TestAnErrorMayBeShared(t *testing.T) {
	t.Parallel()
	e := problem.MethodNotAllowed.New("Use GET.", problem.Header("Allow", "GET"), problem.Header("Allow", "HEAD"))
	first, second := make(http.Header), make(http.Header)
	e.SetHeaders(first)
	first["Allow"][0] = "PUT"
	e.SetHeaders(second)
	if got := strings.Join(second.Values("Allow"), ","); got != "GET,HEAD" {
		t.Errorf("Allow is %q, want GET,HEAD", got)
	}
}
