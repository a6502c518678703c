package targets

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rowlock/rowlock/platform/telemetry"
)

// fake stands in for a service that keeps its promises but for one bug.
type fake struct {
	bug string

	mu    sync.Mutex
	n     int
	calls int
	stop  chan struct{} // closed after enough changes
	free  []string
	paid  map[string]string // answers by key
}

// enough is after how many changes a load is stopped; late is one of them.
const (
	enough = 60
	late   = 23
)

func serve(t *testing.T, bug string) (*fake, string) {
	t.Helper()
	f := &fake{bug: bug, stop: make(chan struct{}), paid: map[string]string{}}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	return f, server.URL + "/"
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	prepares := strings.HasPrefix(r.URL.Path, "/api/v1/internal") ||
		strings.HasPrefix(r.URL.Path, "/iidy/v1/batch") && r.URL.RawQuery == ""
	if r.Method == http.MethodPost && !prepares {
		if f.calls++; f.calls == enough {
			close(f.stop)
		}
		if f.calls == late && f.fail(w) {
			return
		}
		if f.paid[r.Header.Get("Idempotency-Key")] == "" || f.bug == "charges twice" {
			f.n++
		}
	}
	if f.calls > 1 {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	if f.bug == "gap" && r.URL.Path == "/events/13" ||
		f.bug == "loses the last" && r.URL.Path == fmt.Sprintf("/events/%d", f.n) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"code":"EVENT_NOT_FOUND"}`)
		return
	}
	_, _ = io.WriteString(w, f.answer(r))
}

// fail answers one change, or miscounts it.
func (f *fake) fail(w http.ResponseWriter) bool {
	switch f.bug {
	case "overloaded":
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"code":"OVERLOADED"}`)
		return true
	case "refuses":
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"code":"COUNT_NOT_FOUND"}`)
		return true
	case "drops an answer":
		f.n++
		panic(http.ErrAbortHandler)
	case "forgets":
		f.n--
	case "doubles":
		f.n++
	}
	return false
}

func (f *fake) answer(r *http.Request) string {
	path := r.Method + " " + r.URL.Path
	switch {
	case path == "GET /api/v1/internal/counts":
		return fmt.Sprintf(`[{"currentValue":%d}]`, f.n)
	case strings.HasPrefix(path, "GET /api/v1/internal/counts/"):
		return fmt.Sprintf(`{"currentValue":%d}`, f.n)
	case path == "GET /v1/payments":
		return fmt.Sprintf(`{"payments":[%s]}`, strings.TrimSuffix(strings.Repeat("{},", f.n), ","))
	case path == "GET /events" && f.bug == "loses the last":
		return fmt.Sprintf(`{"count":%d}`, max(0, f.n-1))
	case path == "GET /events":
		return fmt.Sprintf(`{"count":%d}`, f.n)
	case strings.HasPrefix(path, "GET /events/"):
		return fmt.Sprintf(`{"id":%s,"value":"x"}`, strings.TrimPrefix(path, "GET /events/"))
	case strings.HasPrefix(path, "GET /iidy/v1/batch"):
		return fmt.Sprintf(`{"listentries":[{"item":"item-00","attempts":%d}]}`, f.n)
	case strings.HasPrefix(path, "POST /iidy/v1/batch"):
		return f.batch(r)
	case strings.HasPrefix(path, "POST /events"):
		return fmt.Sprintf(`{"id":%d,"value":"x"}`, f.n)
	case path == "POST /v1/payments":
		key := r.Header.Get("Idempotency-Key")
		if f.paid[key] == "" || f.bug == "answers otherwise" {
			f.paid[key] = fmt.Sprintf(`{"id":"0198f3c2-0000-7000-8000-%012d"}`, f.calls)
		}
		return f.paid[key]
	case strings.HasPrefix(path, "DELETE /iidy"):
		return fmt.Sprintf(`{"deleted":%d}`, itemsAtOnce)
	}
	return fmt.Sprintf(`{"value":%d,"items":%d}`, f.n, f.n)
}

// batch adds the items to those that are free, or claims some of them.
func (f *fake) batch(r *http.Request) string {
	if r.URL.RawQuery == "" {
		if f.free != nil && f.bug != "adds twice" {
			return `{"added":0}`
		}
		for i := range itemsAtOnce {
			f.free = append(f.free, fmt.Sprintf(`{"item":"item-%03d","attempts":0}`, i))
		}
		return fmt.Sprintf(`{"added":%d}`, itemsAtOnce)
	}
	if len(f.free) == 0 {
		return `{"claim":"","lease_until":"","listentries":[]}`
	}
	n := min(claimSize, len(f.free))
	taken := slices.Clone(f.free[:n])
	if f.free = f.free[n:]; f.bug == "claims overlap" && f.calls == late {
		f.free = append(f.free, taken[0])
	}
	return fmt.Sprintf(`{"claim":"c","lease_until":"2026-11-21T08:00:00Z","listentries":[%s]}`, strings.Join(taken, ","))
}

func check(t *testing.T, target Target) (string, error) {
	t.Helper()
	tel, err := telemetry.New(t.Context(), telemetry.Config{Service: "rowlock", Output: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	return Check(t.Context(), tel, target)
}

func TestCheckFindsBugs(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ service, bug, want string }{
		{"counts", "forgets", "each of 1 to 100 once"},
		{"counts", "refuses", "COUNT_NOT_FOUND"},
		{"iidy", "adds twice", "two batches"},
		{"iidy", "claims overlap", "was claimed 2 times"},
		{"events", "gap", "EVENT_NOT_FOUND"},
		{"events", "forgets", "some of them twice"},
		{"payments", "charges twice", "30 payments are stored"},
	} {
		t.Run(tc.service+" "+tc.bug, func(t *testing.T) {
			t.Parallel()
			_, url := serve(t, tc.bug)
			_, err := check(t, Target{Service: tc.service, URL: url})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}

func TestDrive(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		service, bug, fault        string
		notApplied, unknown, wrong int
	}{
		{service: "counts"},
		{service: "iidy"},
		{service: "events"},
		{service: "payments"},
		{service: "counts", bug: "overloaded", notApplied: 1},
		{service: "counts", bug: "drops an answer", unknown: 1},
		{service: "counts", bug: "refuses", fault: "1 answers were wrong", wrong: 1},
		{service: "counts", bug: "forgets", fault: "were acknowledged"},
		{service: "iidy", bug: "doubles", fault: "are stored"},
		{service: "payments", bug: "doubles", fault: "keys made"},
		{service: "payments", bug: "charges twice", fault: "keys made"},
		{service: "payments", bug: "answers otherwise", fault: "one key was answered"},
		{service: "events", bug: "gap", fault: "there is a gap at 13"},
		{service: "events", bug: "loses the last", fault: "there is a gap at "},
	} {
		t.Run(tc.service+" "+tc.bug, func(t *testing.T) {
			t.Parallel()
			f, url := serve(t, tc.bug)
			r, err := Drive(t.Context(), Load{Target: Target{Service: tc.service, URL: url}, Rate: 1000, Clients: 4}, f.stop)
			if err != nil {
				t.Fatal(err)
			}
			if (r.Fault == "") != (tc.fault == "") || !strings.Contains(r.Fault, tc.fault) || r.Acknowledged == 0 {
				t.Errorf("the report is %+v, want the fault %q", r, tc.fault)
			}
			if total(r.NotApplied) != tc.notApplied || total(r.Unknown) != tc.unknown || total(r.Wrong) != tc.wrong {
				t.Errorf("the outcomes are %+v", r)
			}
		})
	}
}
