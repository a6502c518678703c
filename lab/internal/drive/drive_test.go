package drive

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// fake is a service with a bug. It stops the load after a while.
type fake struct {
	mu    sync.Mutex
	bug   string
	calls int
	n     int
	stop  chan struct{}
}

// enough is after how many changes the load is stopped.
const enough = 60

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	f.mu.Lock()
	defer f.mu.Unlock()
	change := r.Method == http.MethodPost && !strings.HasSuffix(r.URL.Path, "ViewPot") &&
		!strings.HasSuffix(r.URL.Path, "CreatePot") && !strings.HasSuffix(r.URL.Path, "internal/counts")
	if change {
		if f.calls++; f.calls == enough {
			close(f.stop)
		}
	}
	if change && f.calls%10 == 3 {
		switch f.bug {
		case "overloaded":
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `{"code":"OVERLOADED"}`)
			return
		case "drops answers":
			f.n++
			panic(http.ErrAbortHandler)
		case "unknown":
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, `{"code":"OUTCOME_UNKNOWN"}`)
			return
		case "wrong":
			w.WriteHeader(http.StatusTeapot)
			return
		case "processor":
			w.WriteHeader(http.StatusBadGateway)
			_, _ = io.WriteString(w, `{"code":"PROCESSOR_ERROR"}`)
			return
		case "forgets":
			f.n--
		case "doubles":
			f.n++
		}
	}
	f.answer(w, r, string(body), change)
}

func (f *fake) answer(w http.ResponseWriter, r *http.Request, body string, change bool) {
	if change {
		f.n++
	}
	path := r.Method + " " + r.URL.Path
	switch {
	case strings.Contains(path, "CreatePot"):
		_, _ = io.WriteString(w, `{"pot_id":1}`)
	case strings.Contains(path, "ViewPot"):
		n := f.n / pots
		if strings.Contains(body, `"pot_id":1}`) {
			_, _ = fmt.Fprintf(w, `{"coins":[{"count":%d}]}`, n)
		}
	case strings.HasPrefix(path, "POST /events"):
		_, _ = fmt.Fprintf(w, `{"id":%d}`, f.n)
	case strings.HasPrefix(path, "GET /events/"):
		if f.bug == "gap" && path == "GET /events/13" {
			w.WriteHeader(http.StatusNotFound)
		}
	case path == "GET /events":
		_, _ = fmt.Fprintf(w, `{"count":%d}`, f.n)
	case path == "GET /v1/payments":
		_, _ = fmt.Fprintf(w, `{"payments":[%s]}`, strings.TrimSuffix(strings.Repeat("{},", f.n), ","))
	case strings.HasPrefix(path, "GET /iidy"):
		_, _ = fmt.Fprintf(w, `{"items":%d}`, f.n)
	case path == "GET /api/v1/internal/counts":
		_, _ = fmt.Fprintf(w, `[{"currentValue":%d}]`, f.n)
	default:
		w.WriteHeader(http.StatusCreated)
	}
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		service, bug, verdict   string
		refused, unknown, wrong bool
	}{
		{service: "counts", verdict: "ok"},
		{service: "iidy", verdict: "ok"},
		{service: "payments", verdict: "ok"},
		{service: "events", verdict: "ok"},
		{service: "counts", bug: "overloaded", verdict: "ok", refused: true},
		{service: "counts", bug: "drops answers", verdict: "ok", unknown: true},
		{service: "iidy", bug: "unknown", verdict: "ok", unknown: true},
		{service: "counts", bug: "wrong", verdict: "answers were wrong", wrong: true},
		{service: "counts", bug: "forgets", verdict: "were acknowledged"},
		{service: "iidy", bug: "doubles", verdict: "are stored"},
		{service: "payments", bug: "processor", verdict: "ok", unknown: true},
		{service: "counts", bug: "processor", verdict: "answers were wrong", wrong: true},
		{service: "payments", bug: "doubles", verdict: "keys made"},
		{service: "events", bug: "gap", verdict: "there is a gap at 13"},
	} {
		t.Run(tc.service+" "+tc.bug, func(t *testing.T) {
			t.Parallel()
			f := &fake{bug: tc.bug, stop: make(chan struct{})}
			server := httptest.NewServer(f)
			defer server.Close()
			r, err := Run(t.Context(), Options{Service: tc.service, URL: server.URL + "/", Rate: 1000, Clients: 4}, f.stop)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(r.Verdict, tc.verdict) || r.Acknowledged == 0 {
				t.Errorf("the verdict is %+v, want %s", r, tc.verdict)
			}
			if total(r.NotApplied) > 0 != tc.refused || total(r.Unknown) > 0 != tc.unknown || total(r.Wrong) > 0 != tc.wrong {
				t.Errorf("the classes are %+v", r)
			}
		})
	}
}

func TestPotsConserveCoins(t *testing.T) {
	t.Parallel()
	f := &fake{stop: make(chan struct{})}
	server := httptest.NewServer(f)
	defer server.Close()
	r, err := Run(t.Context(), Options{Service: "pyggpot", URL: server.URL, Rate: 1000, Clients: 1}, f.stop)
	if err != nil {
		t.Fatal(err)
	}
	// The fake deals what it has to ten pots, and drops the remainder.
	if r.Stored != r.Acknowledged/pots*pots {
		t.Errorf("%+v", r)
	}
}

// A service that is not there is dialled again and again; nothing of it is unknown.
func TestRefusedDials(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	dials := 0
	c := newClient(Options{URL: server.URL}, func() { dials++ })
	c.patience = 300 * time.Millisecond
	if o := c.change(t.Context(), server.URL+"/x", ""); o.class != notApplied || dials < 3 {
		t.Errorf("%+v after %d dials", o, dials)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	for _, o := range []Options{{Service: "gin", Rate: 1, Clients: 1}, {Service: "counts", Clients: 1}, {Service: "counts", Rate: 1}} {
		if _, err := Run(t.Context(), o, nil); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}
