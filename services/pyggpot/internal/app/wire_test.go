package app_test

import (
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rowlock/rowlock/client/pyggpot/coin"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
)

const addCoins = "/pyggpot.coin.Coin/AddCoins"

// TestJSONToTheLetter: JSON requests and answers have these spellings.
func TestJSONToTheLetter(t *testing.T) {
	t.Parallel()
	r, _ := start(t, nil)
	for _, tt := range []struct{ path, body, want string }{
		{"/pyggpot.pot.Pot/ListPots", `{"page":1}`, `{"total_pot_count":0,"request":{"page":1,"limit":0},"pots":[]}`},
		{
			"/pyggpot.pot.Pot/CreatePot", `{"pot_name":"Piggy","max_coins":100}`,
			`{"pot_id":1,"pot_name":"Piggy","max_coins":100,"create_time":"`,
		},
		{
			addCoins, `{"pot_id":1,"coins":[{"kind":"GOLD","count":2},{"kind":1,"count":3}]}`,
			`{"coins":[{"kind":"BRONZE","count":3},{"kind":"GOLD","count":2}]}`,
		},
		{
			"/twirp" + addCoins, `{"potId":1,"coins":[{"kind":"SILVER","count":"1"}]}`,
			`{"coins":[{"kind":"SILVER","count":1}]}`,
		},
		{"/twirp/pyggpot.coin.Coin/RemoveCoins", `{"pot_id":1,"coins":[{"kind":"GOLD","count":0}]}`, `{"code":`},
		{"/pyggpot.coin.Coin/RemoveCoins", `{"pot_id":1,"coins":[{"kind":"GOLD","count":9}]}`, `{"coins":[{"kind":"GOLD","`},
		{"/pyggpot.coin.Coin/RemoveCoins", `{"pot_id":1,"coins":[{"kind":"GOLD","count":9}]}`, `{"coins":[]}`},
	} {
		a := r.send(t, tt.path, "application/json", tt.body)
		if !strings.HasPrefix(a.Body, tt.want) || a.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %s, want %s", tt.path, a, tt.want)
		}
	}
	for _, contentType := range []string{"application/json; charset=utf-8", "application/vnd.x+json", ""} {
		if a := r.send(t, "/pyggpot.pot.Pot/ViewPot", contentType, `{"pot_id":1}`); a.Status != http.StatusOK {
			t.Errorf("%q: %s", contentType, a)
		}
	}
}

// TestRefusalsOfTheServer: what no handler sees is a Connect error as well, with the status of the other services, or a
// Twirp error with Twirp's.
func TestRefusalsOfTheServer(t *testing.T) {
	t.Parallel()
	r, _ := start(t, map[string]string{"MAX_BODY": "1KiB"})
	const (
		json    = "application/json"
		invalid = "invalid_argument"
		field   = "INVALID_FIELD"
		large   = "resource_exhausted"

		sevenCoins = `{"pot_id":1,"coins":[{"kind":"GOLD","count":7}]}`
	)
	if a := r.send(t, "/twirp/pyggpot.pot.Pot/CreatePot", json, `{"pot_name":"six","max_coins":6}`); a.Status != 200 {
		t.Fatalf("create: %s", a)
	}
	for _, tt := range []struct {
		path, contentType, body string
		status                  int
		code, reason, at        string
	}{
		{"/pyggpot.coin.Coin/Nope", json, "{}", 404, "unimplemented", "NOT_FOUND", ""},
		{"/twirp/Nope/Nope", json, "{}", 404, "bad_route", "NOT_FOUND", ""},
		{"/twirp" + addCoins, "application/grpc", "", 404, "bad_route", "UNSUPPORTED_MEDIA_TYPE", ""},
		{"/twirp" + addCoins, json, "{}{}", 400, "malformed", "INVALID_JSON", ""},
		{"/twirp" + addCoins, "application/protobuf", "\xff", 400, "malformed", "INVALID_JSON", ""},
		{"/twirp" + addCoins, "application/protobuf", strings.Repeat("A", 2000), 429, large, "BODY_TOO_LARGE", ""},
		{"/twirp" + addCoins, json, sevenCoins, 412, "failed_precondition", "POT_FULL", "coins"},
		{addCoins, "application/x-www-form-urlencoded", "a=1", 415, invalid, "UNSUPPORTED_MEDIA_TYPE", ""},
		{"/grpc.health.v1.Health/Watch", json, "{}", 415, invalid, "UNSUPPORTED_MEDIA_TYPE", ""},
		{addCoins, json, `{"coins":[` + strings.Repeat(" ", 2000) + `]}`, 413, large, "BODY_TOO_LARGE", ""},
		{addCoins, json, "", 400, invalid, "INVALID_JSON", ""},
		{addCoins, json, "\x00\x08\x01", 400, invalid, "INVALID_JSON", ""}, // as the codec is handed it
		{addCoins, json, "{}{}", 400, invalid, "INVALID_JSON", ""},
		{addCoins, json, "{\"\xff\":1}", 400, invalid, "INVALID_JSON", ""},
		{addCoins, json, `{"pot_id":1,"foo":1}`, 400, invalid, field, "foo"},
		{addCoins, json, `{"pot_id":1,"pot_id":2}`, 400, invalid, field, "pot_id"},
		{addCoins, json, `{"pot_id":"` + strings.Repeat("A", 900) + `"}`, 400, invalid, field, "pot_id"},
		{addCoins, json, `{"pot_id":2147483648}`, 400, invalid, field, "pot_id"},
		{addCoins, json, `{"coins":[{"kind":"TIN"}]}`, 400, invalid, field, "kind"},
	} {
		a := r.send(t, tt.path, tt.contentType, tt.body)
		if a.Status != tt.status || a.Header.Get("Content-Type") != json || strings.Contains(a.Body, "AAAA") {
			t.Errorf("%.40s: %s as %s, want %d", tt.body, a, a.Header.Get("Content-Type"), tt.status)
		}
		if a.Header.Get("Content-Length") == "" { // the end would come after a body that is still being sent
			t.Errorf("%.40s: %s without a length", tt.body, a)
		}
		wantRefusal(t, tt.body, readJSON(t, a), tt.code, tt.reason, tt.at)
	}
	a := apptest.Get(t, r.API+addCoins)
	if a.Status != 405 || a.Header.Get("Allow") != "OPTIONS, POST" || readJSON(t, a).reason != "METHOD_NOT_ALLOWED" {
		t.Errorf("GET: %s, Allow %q", a, a.Header.Get("Allow"))
	}
	// Other paths are answered as by any API.
	if a := apptest.Get(t, r.API+"/nope"); a.Status != 404 || a.Code != "NOT_FOUND" {
		t.Errorf("another path: %s", a)
	}
	var none coin.CoinsListResponse
	err := dial(t, r).Invoke(t.Context(), "/pyggpot.coin.Coin/Nope", &none, &none)
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("no such procedure, by gRPC: %v", err)
	}
	err = dial(t, r).Invoke(t.Context(), addCoins, &coin.AddCoinsRequest{Coins: slices.Repeat(kinds(1, 1), 1000)}, &none)
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a large body, by gRPC: %v", err)
	}
}

// TestCrossSite: a page of another origin changes nothing, in any protocol that a browser speaks.
func TestCrossSite(t *testing.T) {
	t.Parallel()
	r, _ := start(t, nil)
	const create, body = "/pyggpot.pot.Pot/CreatePot", `{"pot_name":"Piggy","max_coins":100}`
	post := func(path, contentType, site string) apptest.Answer {
		return apptest.Send(t, http.MethodPost, r.API+path, body,
			map[string]string{"Content-Type": contentType, "Sec-Fetch-Site": site})
	}
	for _, path := range []string{create, "/twirp" + create} {
		a := post(path, "application/json", "cross-site")
		if a.Status != http.StatusForbidden {
			t.Errorf("%s: %s", path, a)
		}
		wantRefusal(t, path, readJSON(t, a), "permission_denied", "CROSS_SITE", "")
	}
	if a := post(create, "application/grpc-web+json", "cross-site"); !strings.Contains(a.Body, "grpc-status: 7") &&
		a.Header.Get("Grpc-Status") != "7" {
		t.Errorf("gRPC-Web: %s %v", a, a.Header)
	}
	if a := post(create, "application/json", "same-origin"); a.Status != http.StatusOK {
		t.Errorf("the same origin: %s", a)
	}
}

// TestTimeIsOver: a request whose time is over before its method runs is not applied.
func TestTimeIsOver(t *testing.T) {
	t.Parallel()
	r, _ := start(t, nil)
	for path, body := range map[string]string{
		addCoins: `{"pot_id":1,"coins":[{"kind":"GOLD","count":1}]}`, "/pyggpot.pot.Pot/ViewPot": `{"pot_id":1}`,
	} {
		header := apptest.JSON()
		header["Connect-Timeout-Ms"] = "0"
		a := apptest.Send(t, http.MethodPost, r.API+path, body, header)
		if a.Status != http.StatusServiceUnavailable || len(a.Header.Values("Retry-After")) != 1 {
			t.Errorf("%s: %s, Retry-After %q", path, a, a.Header.Values("Retry-After"))
		}
		wantRefusal(t, path, readJSON(t, a), "unavailable", "NOT_APPLIED", "")
	}
	if strings.Contains(r.Log.String(), `"level":"ERROR"`) {
		t.Error("it is logged as a fault of the service")
	}
}

// TestCompressedBodies: compressed bodies have the same limits and the same errors.
func TestCompressedBodies(t *testing.T) {
	t.Parallel()
	r, _ := start(t, map[string]string{"MAX_BODY": "1KiB"})
	zipped := func(body string) string {
		var buf strings.Builder
		w := gzip.NewWriter(&buf)
		_, err := io.WriteString(w, body)
		if err = errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		return buf.String()
	}
	for _, tt := range []struct {
		encoding, body   string
		status           int
		code, reason, at string
	}{
		{"gzip", zipped(`{"pot_id":7,"coins":[{"kind":"GOLD","count":1}]}`), 404, "not_found", "POT_NOT_FOUND", ""},
		{"identity", `{"foo":1}`, 400, "invalid_argument", "INVALID_FIELD", "foo"},
		{"gzip", zipped(`{"foo":1}`), 400, "invalid_argument", "INVALID_FIELD", "foo"},
		{"gzip", zipped(strings.Repeat(" ", 1<<20)), 413, "resource_exhausted", "BODY_TOO_LARGE", ""},
		{"gzip", "no gzip", 400, "invalid_argument", "INVALID_JSON", ""},
		{"gzip", zipped("{}")[:20], 400, "invalid_argument", "INVALID_JSON", ""},
		{"br", "{}", 415, "invalid_argument", "UNSUPPORTED_MEDIA_TYPE", ""},
	} {
		header := apptest.JSON()
		header["Content-Encoding"] = tt.encoding
		a := apptest.Send(t, http.MethodPost, r.API+addCoins, tt.body, header)
		if a.Status != tt.status {
			t.Errorf("%s: %s, want %d", tt.encoding, a, tt.status)
		}
		wantRefusal(t, tt.encoding, readJSON(t, a), tt.code, tt.reason, tt.at)
	}
}
