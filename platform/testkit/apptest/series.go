package apptest

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// SeriesAreBounded sends what a hostile client could send, with new names in each round. It fails the test if a later
// round adds a series to /metrics, or if a name appears there. The paths are relative to the base URL api, with %s in
// place of the name.
func SeriesAreBounded(t *testing.T, r *Replica, api string, paths ...string) {
	t.Helper()
	const rounds = 3
	known := make(map[string]bool)
	for round := range rounds {
		for _, path := range append([]string{"/%s", "/%s/%s", "//%s/..%%2f"}, paths...) {
			attack(t, api+path, round)
		}

		metrics := r.Metrics(t)
		if strings.Contains(strings.ToLower(metrics), hostile) {
			t.Error("/metrics shows a name that a client has sent")
		}

		for line := range strings.Lines(metrics) {
			series := line[:strings.LastIndexByte(line, ' ')+1] // without its value
			if round > 0 && !known[series] && !strings.HasPrefix(line, "#") {
				t.Errorf("round %d has made a series: %s", round, series)
			}
			known[series] = true
		}
	}

	if len(known) == 0 {
		t.Error("/metrics is empty")
	}
}

const hostile = "hostile"

// attack sends the names of one round with every method: in path, query, headers and body.
func attack(t *testing.T, url string, round int) {
	t.Helper()
	for i, name := range []string{
		hostile, hostile + "%2F..%00", hostile + "%F0%9F%92%A5%22%7D", strings.Repeat(hostile, 100),
	} {
		name = fmt.Sprintf("%s-%d-%d", name, round, i)
		target := strings.ReplaceAll(url, "%s", name)
		target = strings.ReplaceAll(target, "%%", "%") + "?" + name + "=1&action=" + name

		header := map[string]string{
			"Idempotency-Key": name, "X-Request-Id": name, "User-Agent": name, "Accept": name + "/" + name, "Forwarded": name,
		}

		unknown := strings.ToUpper(hostile) + strconv.Itoa(round)
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete, unknown} {
			for _, kind := range []string{"application/json", "text/" + name} {
				header["Content-Type"] = kind
				a := Send(t, method, target, `{"`+name+`":"`+name+`"}`, header)
				if a.Status == http.StatusInternalServerError {
					t.Errorf("%s %s: %s", method, target, a)
				}
			}
		}
	}
}
