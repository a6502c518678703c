package app_test

import (
	"compress/gzip"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/grpchealth"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	reflectpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/rowlock/rowlock/client/pyggpot/coin"
	"github.com/rowlock/rowlock/client/pyggpot/coin/coinconnect"
	potpb "github.com/rowlock/rowlock/client/pyggpot/pot"
	"github.com/rowlock/rowlock/client/pyggpot/pot/potconnect"
	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/chassis"
	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/services/pyggpot/internal/app"
	"github.com/rowlock/rowlock/services/pyggpot/internal/postgres"
)

const addCoins = "/pyggpot.coin.Coin/AddCoins"

// What JSON looks like, to the letter.
func TestJSONToTheLetter(t *testing.T) {
	t.Parallel()
	r := start(t, dbtest.Postgres(t, postgres.Migrations()), nil)
	for _, tt := range []struct{ path, body, want string }{
		{"/pyggpot.pot.Pot/ListPots", `{"page":1}`, `{"total_pot_count":0,"request":{"page":1,"limit":0},"pots":[]}`},
		{"/pyggpot.pot.Pot/CreatePot", `{"pot_name":"Piggy","max_coins":100}`, `{"pot_id":1,"pot_name":"Piggy","max_coins":100,"create_time":"`},
		{
			addCoins, `{"pot_id":1,"coins":[{"kind":"GOLD","count":2},{"kind":1,"count":3}]}`,
			`{"coins":[{"kind":"BRONZE","count":3},{"kind":"GOLD","count":2}]}`,
		},
		{"/twirp" + addCoins, `{"potId":1,"coins":[{"kind":"SILVER","count":"1"}]}`, `{"coins":[{"kind":"SILVER","count":1}]}`},
		{"/twirp/pyggpot.coin.Coin/RemoveCoins", `{"pot_id":1,"coins":[{"kind":"GOLD","count":9}]}`, `{"coins":[{"kind":"GOLD","count":2}]}`},
		{"/pyggpot.coin.Coin/RemoveCoins", `{"pot_id":1,"coins":[{"kind":"GOLD","count":9}]}`, `{"coins":[]}`},
	} {
		a := raw(t, "http://"+r.addr+tt.path, "application/json", strings.NewReader(tt.body))
		if a.Status != http.StatusOK || !strings.HasPrefix(a.Body, tt.want) || a.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %s, want %s", tt.path, a, tt.want)
		}
	}
	for _, contentType := range []string{"application/json; charset=utf-8", "application/vnd.x+json", ""} {
		a := raw(t, "http://"+r.addr+"/pyggpot.pot.Pot/ViewPot", contentType, strings.NewReader(`{"pot_id":1}`))
		if a.Status != http.StatusOK {
			t.Errorf("%q: %s", contentType, a)
		}
	}
}

// What no handler sees is refused as a Connect error, too, with the usual status.
func TestRefusalsOfTheServer(t *testing.T) {
	t.Parallel()
	r := start(t, dbtest.Postgres(t, postgres.Migrations()), map[string]string{"MAX_BODY": "1KiB"})
	body := `{"pot_id":1,"coins":[` + strings.Repeat(" ", 2000) + `]}`
	const (
		invalid = "invalid_argument"
		field   = "INVALID_FIELD"
		large   = "resource_exhausted"
	)
	for _, tt := range []struct {
		name, path, contentType string
		body                    io.Reader
		status                  int
		code, reason, at        string
	}{
		{"no such procedure", "/pyggpot.coin.Coin/Nope", "application/json", strings.NewReader("{}"), 404, "unimplemented", "NOT_FOUND", ""},
		{"no such service", "/twirp/Nope/Nope", "application/json", strings.NewReader("{}"), 404, "unimplemented", "NOT_FOUND", ""},
		{"a form", addCoins, "application/x-www-form-urlencoded", strings.NewReader("a=1"), 415, invalid, "UNSUPPORTED_MEDIA_TYPE", ""},
		{"a large body", addCoins, "application/json", strings.NewReader(body), 413, large, "BODY_TOO_LARGE", ""},
		{"a large body, unannounced", addCoins, "application/json", io.MultiReader(strings.NewReader(body)), 413, large, "BODY_TOO_LARGE", ""},
		{"no body", addCoins, "application/json", http.NoBody, 400, invalid, "INVALID_JSON", ""},
		{"no JSON", addCoins, "application/json", strings.NewReader("{"), 400, invalid, "INVALID_JSON", ""},
		{"trailing data", addCoins, "application/json", strings.NewReader("{}{}"), 400, invalid, "INVALID_JSON", ""},
		{"invalid UTF-8", addCoins, "application/json", strings.NewReader("{\"\xff\":1}"), 400, invalid, "INVALID_JSON", ""},
		{"unknown member", addCoins, "application/json", strings.NewReader(`{"pot_id":1,"foo":1}`), 400, invalid, field, "foo"},
		{"doubled member", addCoins, "application/json", strings.NewReader(`{"pot_id":1,"pot_id":2}`), 400, invalid, field, "pot_id"},
		{"wrong type", addCoins, "application/json", strings.NewReader(`{"pot_id":"x"}`), 400, invalid, field, "pot_id"},
		{"beyond 32 bits", addCoins, "application/json", strings.NewReader(`{"pot_id":2147483648}`), 400, invalid, field, "pot_id"},
		{"unknown kind", addCoins, "application/json", strings.NewReader(`{"coins":[{"kind":"TIN"}]}`), 400, invalid, field, "kind"},
	} {
		a := raw(t, "http://"+r.addr+tt.path, tt.contentType, tt.body)
		if a.Status != tt.status || a.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %s as %s, want %d", tt.name, a, a.Header.Get("Content-Type"), tt.status)
		}
		wantRefusal(t, tt.name, readJSON(t, a), tt.code, tt.reason, tt.at)
	}
	a := apptest.Get(t, "http://"+r.addr+addCoins)
	if a.Status != 405 || a.Header.Get("Allow") != "OPTIONS, POST" || readJSON(t, a).reason != "METHOD_NOT_ALLOWED" {
		t.Errorf("GET: %s, Allow %q", a, a.Header.Get("Allow"))
	}
	// Beside the procedures it is an API like any other.
	if a := apptest.Get(t, "http://"+r.addr+"/nope"); a.Status != 404 || a.Code != "NOT_FOUND" {
		t.Errorf("another path: %s", a)
	}
	for path, want := range map[string]string{"/openapi.yaml": "/pyggpot.coin.Coin/RemoveCoins:", "/docs": "Rowlock pyggpot"} {
		if a := apptest.Get(t, "http://"+r.addr+path); a.Status != 200 || !strings.Contains(a.Body, want) {
			t.Errorf("%s: %.200s", path, a)
		}
	}
	var none coin.CoinsListResponse
	err := newGRPC(t, r).conn.Invoke(t.Context(), "/pyggpot.coin.Coin/Nope", &none, &none)
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("no such procedure, by gRPC: %v", err)
	}
	err = newGRPC(t, r).conn.Invoke(t.Context(), addCoins, &coin.AddCoinsRequest{Coins: slices.Repeat(kinds(1, 1), 1000)}, &none)
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a large body, by gRPC: %v", err)
	}
}

// A request whose time is over before its method runs has surely done nothing.
func TestTimeIsOver(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	r := start(t, dsn, nil)
	if refused := callers(t, r)["JSON"].call(t, &potpb.CreatePotRequest{PotName: "pot", MaxCoins: 6}, new(potpb.PotResponse)); refused != nil {
		t.Fatal(refused)
	}
	for path, body := range map[string]string{
		addCoins: `{"pot_id":1,"coins":[{"kind":"GOLD","count":1}]}`, "/pyggpot.pot.Pot/ViewPot": `{"pot_id":1}`,
	} {
		header := apptest.JSON()
		header["Connect-Timeout-Ms"] = "0"
		a := apptest.Send(t, http.MethodPost, "http://"+r.addr+path, body, header)
		if a.Status != http.StatusServiceUnavailable || len(a.Header.Values("Retry-After")) != 1 {
			t.Errorf("%s: %s, Retry-After %q", path, a, a.Header.Values("Retry-After"))
		}
		wantRefusal(t, path, readJSON(t, a), "unavailable", "NOT_APPLIED", "")
	}
	var coins int
	if err := apptest.Open(t, dsn).GetContext(t.Context(), &coins, `SELECT coins FROM pyggpot.pot`); err != nil || coins != 0 {
		t.Errorf("%d coins (%v)", coins, err)
	}
	if strings.Contains(r.Log.String(), `"level":"ERROR"`) {
		t.Error("it is logged as a fault of ours")
	}
}

// Compressed bodies have the same limits and the same errors.
func TestCompressedBodies(t *testing.T) {
	t.Parallel()
	r := start(t, dbtest.Postgres(t, postgres.Migrations()), map[string]string{"MAX_BODY": "1KiB"})
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
		{"br", "{}", 415, "invalid_argument", "UNSUPPORTED_MEDIA_TYPE", ""},
	} {
		header := apptest.JSON()
		header["Content-Encoding"] = tt.encoding
		a := apptest.Send(t, http.MethodPost, "http://"+r.addr+addCoins, tt.body, header)
		if a.Status != tt.status {
			t.Errorf("%s: %s, want %d", tt.encoding, a, tt.status)
		}
		wantRefusal(t, tt.encoding, readJSON(t, a), tt.code, tt.reason, tt.at)
	}
	for path, media := range map[string]string{
		addCoins: "application/connect+json", "/grpc.health.v1.Health/Watch": "application/json",
		"/pyggpot.pot.Pot/ViewPot": "application/grpc+foo",
	} {
		a := raw(t, "http://"+r.addr+path, media, strings.NewReader("{}"))
		if a.Status == http.StatusUnsupportedMediaType && a.Body == "" || a.Status == http.StatusOK && media == "application/json" {
			t.Errorf("%s: %s", media, a)
		}
	}
	// What a client sends does not come back at its own length.
	a := apptest.Send(t, http.MethodPost, "http://"+r.addr+addCoins, `{"pot_id":"`+strings.Repeat("A", 900)+`"}`, apptest.JSON())
	if strings.Contains(a.Body, "AAAA") || readJSON(t, a).field != "pot_id" {
		t.Errorf("%s", a)
	}
}

// What gRPC's tools ask a server.
func TestHealthAndReflection(t *testing.T) {
	t.Parallel()
	r := start(t, dbtest.Postgres(t, postgres.Migrations()), nil)
	conn := newGRPC(t, r).conn
	for service, want := range map[string]grpc_health_v1.HealthCheckResponse_ServingStatus{
		"": grpc_health_v1.HealthCheckResponse_SERVING, potconnect.PotName: grpc_health_v1.HealthCheckResponse_SERVING,
		coinconnect.CoinName: grpc_health_v1.HealthCheckResponse_SERVING,
	} {
		a, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: service})
		if err != nil || a.GetStatus() != want {
			t.Errorf("%q is %v (%v)", service, a.GetStatus(), err)
		}
	}
	if _, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "nope"}); err == nil {
		t.Error("a service that is not there is healthy")
	}
	stream, err := reflectpb.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&reflectpb.ServerReflectionRequest{MessageRequest: &reflectpb.ServerReflectionRequest_ListServices{}}); err != nil {
		t.Fatal(err)
	}
	a, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range a.GetListServicesResponse().GetService() {
		names = append(names, s.GetName())
	}
	for _, want := range []string{potconnect.PotName, coinconnect.CoinName, grpchealth.HealthV1ServiceName} {
		if !strings.Contains(strings.Join(names, " "), want) {
			t.Errorf("reflection lists %v, not %s", names, want)
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Error(err)
	}
}

func TestStartRefusesInOneSentence(t *testing.T) {
	t.Parallel()
	for name, environ := range map[string]map[string]string{
		"no database":             {"DATABASE_URL": ""},
		"no time to live":         {"LOCK_TTL": "0s"},
		"fewer than no retries":   {"LOCK_RETRIES": "-1"},
		"no wait":                 {"LOCK_RETRY_WAIT": "0s"},
		"too few connections":     {"DB_MAX_OPEN_CONNS": "2"},
		"pooler without its flag": {"DB_POOLER": "transaction"},
	} {
		env := map[string]string{"DATABASE_URL": "postgres://u@127.0.0.1:1/d?sslmode=disable", "HTTP_ADDR": "127.0.0.1:0"}
		maps.Copy(env, environ)
		var cfg app.Config
		err := config.Load(&cfg, env)
		if err == nil {
			_, err = app.Service().New(t.Context(), cfg, chassis.Process{Output: io.Discard})
		}
		if err == nil {
			t.Errorf("%s: started", name)
		}
	}
}

func TestProgram(t *testing.T) {
	t.Parallel()
	p := app.Service().Program()
	if p.Name != "pyggpot" || len(p.Commands) < 2 {
		t.Fatalf("%+v", p)
	}
	env := map[string]string{"DATABASE_URL": dbtest.Empty(t)}
	for _, c := range p.Commands {
		if c.Name == "migrate" {
			if err := c.Run(t.Context(), env); err != nil {
				t.Fatal(err)
			}
		}
	}
	env["DB_POOLER"] = "transaction"
	if err := p.Commands[0].Run(t.Context(), env); err == nil {
		t.Error("serve behind a pooler without its flag started")
	}
}
