package httpapi_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/platform/auth"
	"github.com/rowlock/rowlock/services/counts/internal/counting/countingtest"
)

const (
	key      = "Idempotency-Key"
	replayed = "Idempotent-Replayed"
)

// A repeat gets the first answer byte for byte, whatever the spelling of the key and of the body; another request
// under the key gets 409.
func TestRepeats(t *testing.T) {
	t.Parallel()
	s := newServer(t, countingtest.NewMemory())
	s.Want("POST", internal, `{"itemId":"a"}`, 201, "")
	s.Want("POST", internal, `{"itemId":"high","initialValue":9223372036854775807}`, 201, "")
	s.Want("POST", internal, `{"itemId":"gone"}`, 201, "")
	for k, call := range map[string]struct {
		method, path, body, again, other string
		status                           int
	}{
		"k 1":   {"POST", external + "a/increase", ``, ` {"amount":1} `, `{"amount":2}`, 200},
		`k "2"`: {"POST", external + "a/decrease", `{"amount":7}`, `{"amount": 7}`, ``, 200},
		"k3":    {"PUT", internal + "/a", `{"value":70}`, `{"value": 70}`, `{"value":0}`, 200},
		"k4": {
			"POST", batch, `{"changes":[{"itemId":"a","amount":7},{"itemId":"a","amount":1}]}`,
			`{"changes":[{"amount":7,"itemId":"\u0061"},{"itemId":"a","amount":1}]}`,
			`{"changes":[{"itemId":"a","amount":1},{"itemId":"a","amount":7}]}`, 200,
		},
		"k5": {"POST", external + "absent/increase", ``, `{}`, `{"amount":2}`, 404},
		"k6": {"POST", external + "high/increase", `{"amount":5}`, `{"amount":5 }`, `{"amount":6}`, 422},
		"k7": {
			"POST", batch, `{"changes":[{"itemId":"a","amount":7},{"itemId":"absent","amount":1}]}`,
			`{"changes":[{"itemId":"a","amount":7}, {"itemId":"absent","amount":1}]}`,
			`{"changes":[{"itemId":"absent","amount":1}]}`, 404,
		},
		"k8":  {"POST", external + "a/reset", ``, `{}`, ``, 200},
		"k9":  {"POST", internal, `{"itemId":"new"}`, ` {"itemId":"new","initialValue":0}`, `{"itemId":"new2"}`, 201},
		"k10": {"POST", internal, `{"itemId":"a"}`, `{"itemId":"a" }`, `{"itemId":"new2"}`, 409},
		"k11": {"DELETE", internal + "/gone", ``, ``, ``, 204},
		"k12": {"DELETE", internal + "/absent", ``, ``, ``, 404},
	} {
		first := s.Do(call.method, call.path, call.body, key, k)
		if first.Status != call.status || first.Header.Get(replayed) != "" {
			t.Errorf("%s: the first request got %s, %v", k, first, first.Header)
		}
		s.Want("POST", external+"a/increase", "", 200, "") // the counts move on
		quoted := `"` + strings.ReplaceAll(k, `"`, `\"`) + `"`
		for _, spelling := range []string{k, quoted} {
			again := s.Do(call.method, call.path, call.again, key, spelling)
			if again.Status != first.Status || again.Body != first.Body || again.Header.Get(replayed) != "true" ||
				again.Header.Get("Content-Type") != first.Header.Get("Content-Type") {
				t.Errorf("%s: a repeat got %s, %v; the first request got %s", k, again, again.Header, first)
			}
		}
		if call.other != "" || k == `k "2"` {
			s.WantProblem(call.method, call.path, call.other, 409, "IDEMPOTENCY_KEY_CONFLICT", key, key, k)
		}
		s.WantProblem("PUT", internal+"/high", `{"value":1}`, 409, "IDEMPOTENCY_KEY_CONFLICT", key, key, k)
	}
	s.Want("GET", internal+"?itemIds=high", "", 200, "", key, "k1") // a read has no key
}

// A key belongs to the caller whose token the request has.
func TestKeysBelongToTheirCaller(t *testing.T) {
	t.Parallel()
	s := newServer(t, countingtest.NewMemory())
	s.Want("POST", internal, `{"itemId":"a"}`, 201, "")
	for _, tc := range []struct {
		caller, want string
		repeat       bool
	}{{"shop", `"value":1`, false}, {"taxi", `"value":2`, false}, {"shop", `"value":1`, true}} {
		r := httptest.NewRequestWithContext(auth.WithCaller(t.Context(), tc.caller), "POST", external+"a/increase", nil)
		r.Header.Set(key, "k")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if !strings.Contains(w.Body.String(), tc.want) || (w.Header().Get(replayed) != "") != tc.repeat {
			t.Errorf("%s: %d %s %v, want %+v", tc.caller, w.Code, w.Body, w.Header(), tc)
		}
	}
}

// Every change refuses a bad key, and a key that is sent twice. platform/idempotency tests what a key may hold.
func TestBadKeys(t *testing.T) {
	t.Parallel()
	s := newServer(t, countingtest.NewMemory())
	s.Want("POST", internal, `{"itemId":"a"}`, 201, "")
	for _, call := range [][3]string{
		{"POST", external + "a/increase"},
		{"POST", external + "a/decrease"},
		{"POST", external + "a/reset"},
		{"PUT", internal + "/a", `{"value":5}`},
		{"POST", internal, `{"itemId":"b"}`},
		{"DELETE", internal + "/a", ``},
		{"POST", batch, `{"changes":[{"itemId":"a","amount":1}]}`},
	} {
		for _, bad := range []string{"", "a\tb"} {
			s.WantProblem(call[0], call[1], call[2], 400, "INVALID_FIELD", key, key, bad)
		}

		r := httptest.NewRequestWithContext(t.Context(), call[0], call[1], strings.NewReader(call[2]))
		r.Header[key] = []string{"a", "a"}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != 400 || !strings.Contains(w.Body.String(), `"field":"`+key+`"`) {
			t.Errorf("%s: a key twice got %d %s", call[1], w.Code, w.Body)
		}
	}
	s.Want("GET", internal+"?itemIds=a", "", 200, "")
}
