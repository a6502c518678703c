package httpserver

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"github.com/rowlock/rowlock/platform/problem"
)

// exposition returns the metrics of a registry, by name and labels.
func exposition(t testing.TB, g prometheus.Gatherer) map[string]float64 {
	t.Helper()
	w := httptest.NewRecorder()
	promhttp.HandlerFor(g, promhttp.HandlerOpts{}).
		ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	found := map[string]float64{}
	for line := range strings.Lines(w.Body.String()) {
		if at := strings.LastIndexByte(line, ' '); line[0] != '#' {
			value, err := strconv.ParseFloat(strings.TrimSpace(line[at:]), 64)
			if err != nil {
				t.Fatal(err)
			}
			found[line[:at]] = value
		}
	}
	return found
}

func metric(t testing.TB, g prometheus.Gatherer, name string) float64 {
	t.Helper()
	return exposition(t, g)[name]
}

func wantMetric(t *testing.T, g prometheus.Gatherer, name string, want float64) {
	t.Helper()
	all := exposition(t, g)
	if got, ok := all[name]; !ok || got != want {
		t.Errorf("%s is %v (there: %v), want %v; all: %v", name, got, ok, want, all)
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{})
	other := newFixture(t, Config{Name: "internal"}, func(d *Deps) { d.Registry = f.registry })
	f.handle(http.MethodGet, "/a/:id", answer)
	f.handle(http.MethodPost, "/a/:id", func(echo.Context) error { return problem.NotApplied.New("") })
	other.handle(http.MethodGet, "/a/:id", func(c echo.Context) error {
		c.Response().WriteHeader(http.StatusAccepted)
		return nil
	})
	for _, id := range []string{"x", "y", "z"} {
		f.do(t, "GET", "/a/"+id, "")
	}
	f.do(t, "HEAD", "/a/x", "")
	f.do(t, "POST", "/a/x", "")
	f.do(t, "GET", "/unknown/path/1", "")
	f.do(t, "GET", "/unknown/path/2", "")
	f.do(t, "BREW", "/pot", "")
	f.do(t, "KETTLE", "/a/1", "")
	other.do(t, "GET", "/a/x", "")
	const name = "http_server_request_duration_seconds_count"
	want := map[string]float64{
		name + `{method="GET",route="/a/{id}",server="api",status="200"}`:      3,
		name + `{method="HEAD",route="/a/{id}",server="api",status="200"}`:     1,
		name + `{method="POST",route="/a/{id}",server="api",status="503"}`:     1,
		name + `{method="GET",route="unmatched",server="api",status="404"}`:    2,
		name + `{method="other",route="unmatched",server="api",status="404"}`:  1,
		name + `{method="other",route="unmatched",server="api",status="405"}`:  1,
		name + `{method="GET",route="/a/{id}",server="internal",status="202"}`: 1,
		`http_server_requests_failed_total{server="api"}`:                      1,
		`http_server_requests_failed_total{server="internal"}`:                 0,
		`http_server_answers_cut_total{server="api"}`:                          0,
		`http_server_answers_cut_total{server="internal"}`:                     0,
		`http_server_requests_in_flight{server="api"}`:                         0,
		`http_server_requests_in_flight{server="internal"}`:                    0,
	}
	got := exposition(t, f.registry)
	for key, value := range want {
		if v, ok := got[key]; !ok || v != value {
			t.Errorf("%s is %v, want %v", key, v, value)
		}
	}
	for key := range got {
		if _, ok := want[key]; !ok && !strings.Contains(key, "_sum{") && !strings.Contains(key, "_bucket{") {
			t.Errorf("a label too many: %s", key)
		}
	}
}

// The durations have a native histogram beside the classic buckets, in bounded memory whatever they are.
func TestNativeHistogram(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Config{})
		took := 1.0 // ns
		f.handle(http.MethodGet, "/a", func(c echo.Context) error {
			time.Sleep(time.Duration(took))
			return answer(c)
		})
		const requests = 230 // up to some seconds: 126 buckets without a bound
		for range requests {
			f.do(t, "GET", "/a", "")
			took *= 1.1
		}

		families, err := f.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		family := slices.IndexFunc(families, func(f *dto.MetricFamily) bool { return f.GetMetric()[0].GetHistogram() != nil })
		h := families[family].GetMetric()[0].GetHistogram()
		if n := len(h.GetBucket()); n != 14 {
			t.Errorf("%d classic buckets, want 14", n)
		}
		if n := h.GetSampleCount(); n != requests {
			t.Errorf("%d observations, want %d", n, requests)
		}
		native := 0
		for _, span := range h.GetPositiveSpan() {
			native += int(span.GetLength())
		}
		if native < 20 || native > nativeBuckets {
			t.Errorf("%d native buckets, want 20 to %d", native, nativeBuckets)
		}
	})
}

func TestAccessLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for mode, want := range map[string]string{
			"all":    "fine slow refused away bug",
			"":       "slow refused away bug",
			"errors": "slow refused away bug",
			"none":   "bug",
		} {
			f := newFixture(t, Config{LogRequests: mode})
			f.handle(http.MethodGet, "/fine/:id", answer)
			f.handle(http.MethodGet, "/slow/:id", func(c echo.Context) error {
				time.Sleep(1001 * time.Millisecond)
				return answer(c)
			})
			f.handle(http.MethodGet, "/refused/:id", func(echo.Context) error {
				return problem.InvalidField.New("", problem.Cause(context.Canceled))
			})
			f.handle(http.MethodGet, "/away/:id", func(echo.Context) error { return problem.DatabaseUnavailable.New("") })
			f.handle(http.MethodGet, "/bug/:id", func(echo.Context) error { panic("bug") })
			levels := map[string]string{"fine": "INFO", "slow": "INFO", "refused": "INFO", "away": "WARN", "bug": "ERROR"}
			for _, path := range []string{"fine", "slow", "refused", "away", "bug"} {
				f.do(t, "GET", "/"+path+"/4242424242424242?card=4242424242424242", "")
			}
			var got []string
			for _, line := range f.log.lines(t, "request") {
				route, _ := line["route"].(string)
				name := strings.Split(route, "/")[1]
				got = append(got, name)
				if line["level"] != levels[name] || route != "/"+name+"/{id}" || line["server"] != "api" ||
					line["method"] != "GET" || line["ms"] == nil || line["bytes"] == nil || line["request_id"] == nil {
					t.Errorf("%q: %v", mode, line)
				}
				if name == "slow" && line["ms"] != 1001.0 {
					t.Errorf("slow: %v ms", line["ms"])
				}
				if name == "refused" && (line["error"] != nil || line["code"] != "INVALID_FIELD") {
					t.Errorf("the client's input may be in it: %v", line)
				}
			}
			if strings.Join(got, " ") != want {
				t.Errorf("LOG_REQUESTS=%q logged %q, want %q", mode, got, want)
			}
			if strings.Contains(f.log.String(), "4242424242424242") {
				t.Errorf("a path was logged: %s", f.log)
			}
		}
	})
}

// LOG_REQUESTS=errors writes ten lines a second about each code, and how many it left out. Every bug has its line.
func TestRefusalsAreThinnedOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Config{})
		f.handle(http.MethodGet, "/away", func(echo.Context) error { return problem.DatabaseUnavailable.New("Away.") })
		f.handle(http.MethodGet, "/busy", func(echo.Context) error { return problem.Overloaded.New("Busy.") })
		f.handle(http.MethodGet, "/none", func(echo.Context) error { return problem.Unauthenticated.New("None.") })
		f.handle(http.MethodGet, "/bad", func(echo.Context) error { return problem.InvalidField.New("Bad.") })
		f.handle(http.MethodGet, "/bug", func(echo.Context) error { panic("bug") })
		for path, want := range map[string]int{"/away": 10, "/busy": 10, "/none": 10, "/bad": 10, "/bug": 200} {
			for range 200 {
				f.do(t, "GET", path, "")
			}
			if got := strings.Count(f.log.String(), `"route":"`+path+`"`); got != want {
				t.Errorf("%s: %d lines in one second, want %d", path, got, want)
			}
		}
		time.Sleep(time.Second)
		f.do(t, "GET", "/away", "")
		if !strings.Contains(f.log.String(), `"omitted":190`) {
			t.Error("the line does not say how many were left out")
		}
	})
}
