package rowlock_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	rowlock "github.com/rowlock/rowlock/client"
	"github.com/rowlock/rowlock/client/counts"
	"github.com/rowlock/rowlock/client/payments"
)

// A key that HTTP or the service would read as another one is quoted, so that two keys of a caller never become one.
func TestKeysAreSentUnaltered(t *testing.T) {
	t.Parallel()
	var header string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header = r.Header.Get("Idempotency-Key")
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(server.Close)
	c, err := counts.New(server.URL, rowlock.WithoutRetries())
	if err != nil {
		t.Fatal(err)
	}
	p, err := payments.New(server.URL, rowlock.WithoutRetries())
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"a": "a", `a"b`: `a"b`, `a\b`: `a\b`, "a b": "a b", "": "",
		`"a"`: `"\"a\""`, `"`: `"\""`, " a": `" a"`, "a ": `"a "`, `\ `: `"\\ "`,
	} {
		_, err := c.Increase(t.Context(), "a", 1, counts.WithKey(key))
		if header != want || err == nil {
			t.Errorf("counts: key %q is sent as %q, want %q (%v)", key, header, want, err)
		}
		header = ""
		_, _, err = p.Create(t.Context(), key, payments.NewPayment{})
		if header != want || err == nil {
			t.Errorf("payments: key %q is sent as %q, want %q (%v)", key, header, want, err)
		}
	}
}

// A refusal that an earlier request got is reported as replayed, as values are.
func TestReplayedRefusal(t *testing.T) {
	t.Parallel()
	c := open(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Idempotent-Replayed", "true")
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"code":"COUNT_NOT_FOUND"}`))
	})
	var replayed bool
	if _, err := c.Increase(t.Context(), "a", 1, counts.WithKey("k"), counts.ReportReplayed(&replayed)); !replayed {
		t.Errorf("not replayed: %v", err)
	}
}
