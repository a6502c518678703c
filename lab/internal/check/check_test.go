package check

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rowlock/rowlock/platform/telemetry"
)

// fake is a service that keeps its promise, but for a bug.
type fake struct {
	mu    sync.Mutex
	bug   string
	n     int64
	calls int
	items map[string]bool
}

func serve(t *testing.T, bug string, handle func(f *fake, path, query, body string) (int, string)) string {
	t.Helper()
	f := &fake{bug: bug, items: map[string]bool{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.calls++
		if r.Header.Get("Idempotency-Key") != "" && f.calls > 1 && bug != "charged twice" {
			w.Header().Set("Idempotent-Replayed", "true")
		}
		status, answer := handle(f, r.Method+" "+r.URL.Path, r.URL.RawQuery, string(body))
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func fakeCounts(f *fake, path, _, _ string) (int, string) {
	switch {
	case strings.HasSuffix(path, "/increase"):
		if f.bug == "lost update" && f.n == increases/2 {
			f.bug = "lost update, once"
		} else {
			f.n++
		}
		return 200, fmt.Sprintf(`{"value":%d}`, f.n)
	case strings.HasPrefix(path, "POST"):
		return 201, `{}`
	case strings.HasPrefix(path, "DELETE"):
		return 204, ""
	case f.bug == "forgets":
		return 200, `{"currentValue":99}`
	}
	return 200, fmt.Sprintf(`{"currentValue":%d}`, f.n)
}

func fakePayments(f *fake, path, _, _ string) (int, string) {
	switch {
	case strings.HasPrefix(path, "GET") && f.bug == "two rows":
		return 200, `{"payments":[{},{}]}`
	case strings.HasPrefix(path, "GET"):
		return 200, `{"payments":[{}]}`
	case f.bug == "other bytes":
		return 201, strconv.Itoa(f.calls)
	case f.bug == "conflict" && f.calls == 7:
		return 409, `{"code":"PAYMENT_PROCESSING"}`
	}
	return 201, `{"id":"x"}`
}

func fakeEvents(f *fake, path, _, _ string) (int, string) {
	if id, one := strings.CutPrefix(path, "GET /events/"); one {
		if f.bug == "gap" && id == "5" {
			return 404, ""
		}
		return 200, fmt.Sprintf(`{"id":%s,"value":"x"}`, id)
	}
	if f.n++; f.bug == "gap" && f.n == 5 || f.bug == "twice" && f.n == 9 {
		if f.n++; f.bug == "twice" {
			f.n -= 2
			f.bug = "twice, once"
		}
	}
	if strings.HasSuffix(path, "/async") {
		return 202, fmt.Sprintf(`{"id":%d}`, f.n)
	}
	return 201, fmt.Sprintf(`{"id":%d,"value":"x"}`, f.n)
}

func fakeIidy(f *fake, path, query, body string) (int, string) {
	lines := strings.Fields(body)
	switch {
	case strings.HasPrefix(path, "DELETE"):
		return 200, fmt.Sprintf("DELETED %d\n", len(lines))
	case query == "":
		added := 0
		for _, line := range lines {
			if !f.items[line] {
				f.items[line] = true
				added++
			}
		}
		if f.bug == "counts what is there" {
			added = len(lines)
		}
		return 201, fmt.Sprintf("ADDED %d\n", added)
	}
	taken := ""
	for item := range f.items {
		if strings.Count(taken, "\n") < claimSize {
			taken += item + " 0\n"
			delete(f.items, item)
		}
	}
	if f.bug == "claims overlap" && f.calls == 5 {
		f.items[strings.Fields(taken)[0]] = true
	}
	return 200, taken
}

func fakePyggpot(f *fake, path, _, _ string) (int, string) {
	switch {
	case f.calls%5 == 0:
		return 409, `{"code":"aborted"}`
	case strings.HasSuffix(path, "AddCoins"):
		f.n += 2 * coinsIn
		return 200, `{"coins":[{"kind":"BRONZE","count":5},{"kind":"GOLD","count":5}]}`
	case strings.HasSuffix(path, "RemoveCoins"):
		f.n -= coinsOut
		if f.bug == "a coin vanishes" && f.calls > 30 {
			f.n--
			f.bug = ""
		}
		return 200, `{"coins":[{"kind":"BRONZE","count":3}]}`
	}
	return 200, fmt.Sprintf(`{"pot_id":1,"coins":[{"kind":"BRONZE","count":%d}]}`, f.n)
}

// untraced is the telemetry of a program that traces nothing.
func untraced(t *testing.T) *telemetry.Telemetry {
	t.Helper()
	tel, err := telemetry.New(t.Context(), telemetry.Config{Service: "rowlock", Output: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	return tel
}

func TestChecksBite(t *testing.T) {
	t.Parallel()
	for service, s := range map[string]struct {
		handle func(f *fake, path, query, body string) (int, string)
		bugs   map[string]string
	}{
		"counts": {fakeCounts, map[string]string{"lost update": "each of 1 to 100 once", "forgets": "the count is"}},
		"payments": {fakePayments, map[string]string{
			"charged twice": "30 were not replays", "two rows": "{},{}", "other bytes": "one key was answered", "conflict": "409 instead of 201",
		}},
		"events":  {fakeEvents, map[string]string{"gap": "there is a gap", "twice": "some of them twice"}},
		"iidy":    {fakeIidy, map[string]string{"counts what is there": "two batches", "claims overlap": "was claimed 2 times"}},
		"pyggpot": {fakePyggpot, map[string]string{"a coin vanishes": "139 are left"}},
	} {
		s.bugs[""] = ""
		for bug, want := range s.bugs {
			t.Run(service+" "+bug, func(t *testing.T) {
				t.Parallel()
				var out strings.Builder
				err := Run(t.Context(), &out, untraced(t), []Target{{Service: service, URL: serve(t, bug, s.handle) + "/"}})
				if bug == "" && err != nil {
					t.Fatal(err)
				}
				if bug != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(out.String(), "FAILED")) {
					t.Errorf("got %v, want %s", err, want)
				}
				if !strings.HasPrefix(out.String(), service) {
					t.Errorf("printed %q", out.String())
				}
			})
		}
	}
}

// One that fails does not keep the others from being checked; the two APIs of a service may have two addresses.
func TestAllAreChecked(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	good := serve(t, "", fakeCounts)
	err := Run(t.Context(), &out, untraced(t), []Target{
		{Service: "payments", URL: gone.URL},
		{Service: "counts", URL: good, Internal: good},
	})
	if err == nil || !strings.Contains(out.String(), "100 increases at once") {
		t.Errorf("%v, %s", err, out.String())
	}
	err = Run(t.Context(), &out, untraced(t), []Target{{Service: "gin"}})
	if err == nil || !strings.Contains(err.Error(), "counts, events, iidy") {
		t.Errorf("an unknown service: %v", err)
	}
}

// A worker that never comes is noticed, and so is a check that is told to end.
func TestPendingForEver(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	looked := 0
	url := serve(t, "", func(f *fake, path, query, body string) (int, string) {
		if strings.HasPrefix(path, "GET") {
			if looked++; looked > eventsAtOnce+3 {
				cancel()
			}
			id, _ := json.Marshal(path[len("GET /events/"):])
			return 200, fmt.Sprintf(`{"id":%s,"value":null}`, strings.Trim(string(id), `"`))
		}
		return fakeEvents(f, path, query, body)
	})
	if err := Run(ctx, io.Discard, untraced(t), []Target{{Service: "events", URL: url}}); err == nil {
		t.Error("events without a worker pass")
	}
	if !slices.Contains(Services(), "events") {
		t.Error(Services())
	}
}
