package live

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/lab/internal/fault"
	"github.com/rowlock/rowlock/lab/internal/local"
)

// Names that are not this machine's and pages of other origins are refused, as are things that there are not.
func TestRefusals(t *testing.T) {
	t.Parallel()
	handler := New(&fault.Injector{}, []*Service{NewService("counts", nil, new(local.Set), nil)}).Handler()
	for _, tt := range []struct {
		host, site, service, what, number string
		want                              int
	}{
		{"127.0.0.1:8080", "", "counts", "load", "1000", 204},
		{"localhost", "same-origin", "counts", "load", "0", 204},
		{"[::1]:80", "", "counts", "load", "0", 204},
		{"rebound.example:8080", "", "counts", "load", "0", 403},
		{"10.0.0.1", "", "counts", "load", "0", 403},
		{"127.0.0.1:8080", "cross-site", "counts", "load", "0", 403},
		{"127.0.0.1:8080", "", "nothing", "load", "0", 404},
		{"127.0.0.1:8080", "", "counts", "load", "1001", 400},
		{"127.0.0.1:8080", "", "counts", "load", "-1", 400},
		{"127.0.0.1:8080", "", "counts", "nothing", "0", 400},
		{"127.0.0.1:8080", "", "counts", "kill", "0", 400}, // there is no replica
	} {
		form := url.Values{"service": {tt.service}, "what": {tt.what}, "number": {tt.number}}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/do", strings.NewReader(form.Encode()))
		r.Host = tt.host
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", tt.site)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != tt.want {
			t.Errorf("%+v: %d %s", tt, w.Code, w.Body)
		}
	}
}
