package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/platform/httpserver"
	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/services/payments/api"
	"github.com/rowlock/rowlock/services/payments/internal/httpapi"
	"github.com/rowlock/rowlock/services/payments/internal/iso4217"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
	"github.com/rowlock/rowlock/services/payments/internal/payment/paymenttest"
)

// server serves the ports on a repository and holds every answer against the contract.
type server struct {
	t         *testing.T
	http      *httpserver.Server
	router    routers.Router
	processor *paymenttest.Processor
}

func newServer(t *testing.T, repo payment.Repository) *server {
	t.Helper()
	s, err := httpserver.New(httpserver.Config{Name: "api", LogRequests: "none"}, httpserver.Deps{
		Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(), Errors: []func(error) *problem.Error{httpapi.Problem},
	})
	if err != nil {
		t.Fatal(err)
	}
	processor := &paymenttest.Processor{}
	service := payment.NewService(payment.Parts{
		Repository: repo, Processor: processor, Currencies: iso4217.Known(), Render: httpapi.Render,
		Fingerprints: payment.NewFingerprints("s", ""), Observer: &paymenttest.Observer{}, TTL: time.Hour,
	})
	httpapi.Register(s, service, service)
	doc, err := openapi3.NewLoader().LoadFromData(api.OpenAPI)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	router, err := gorillamux.NewRouter(doc)
	if err != nil {
		t.Fatal(err)
	}
	return &server{t: t, http: s, router: router, processor: processor}
}

type answer struct {
	status int
	header http.Header
	body   string
}

// do sends a request and holds the answer against the contract.
func (s *server) do(method, path, body string, header http.Header) answer {
	s.t.Helper()
	r := httptest.NewRequestWithContext(s.t.Context(), method, path, strings.NewReader(body))
	r.Header = header
	w := httptest.NewRecorder()
	s.http.ServeHTTP(w, r)
	a := answer{w.Code, w.Header(), w.Body.String()}
	s.checkContract(r, a)
	return a
}

func (s *server) checkContract(r *http.Request, a answer) {
	s.t.Helper()
	route, params, err := s.router.FindRoute(r)
	if err != nil {
		return // not in the contract, such as a wrong method
	}
	err = openapi3filter.ValidateResponse(context.Background(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route},
		Status:                 a.status,
		Header:                 a.header,
		Body:                   io.NopCloser(bytes.NewReader([]byte(a.body))),
		Options:                &openapi3filter.Options{IncludeResponseStatus: true},
	})
	if err != nil {
		s.t.Errorf("%s %s: the answer %d %s breaks the contract: %v", r.Method, r.URL, a.status, a.body, err)
	}
}

const path = "/v1/payments"

func key(k string) http.Header { return http.Header{"Idempotency-Key": {k}} }

func (s *server) pay(k, body string) answer {
	s.t.Helper()
	return s.do(http.MethodPost, path, body, key(k))
}

func (s *server) wantProblem(what string, a answer, status int, code, field string) {
	s.t.Helper()
	var p struct{ Code, Field string }
	if err := json.Unmarshal([]byte(a.body), &p); err != nil || a.header.Get("Content-Type") != problem.ContentType {
		s.t.Errorf("%s: not a problem: %q (%v)", what, a.body, err)
	}
	if a.status != status || p.Code != code || p.Field != field {
		s.t.Errorf("%s: %d %s %q, want %d %s %q (%s)", what, a.status, p.Code, p.Field, status, code, field, a.body)
	}
}

const (
	good  = "4242424242424242"
	valid = `{"ride_id":"r","rider_id":"p","amount":1250,"currency":"EUR",` +
		`"card":{"number":"` + good + `","exp_month":12,"exp_year":2099,"cvc":"123"}}`
)

func TestLifeOfAPayment(t *testing.T) {
	t.Parallel()
	s := newServer(t, paymenttest.NewMemory())
	paid := s.pay("k", valid)
	var p struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal([]byte(paid.body), &p); err != nil || paid.status != 201 || paid.header.Get("Idempotent-Replayed") != "" ||
		paid.header.Get("Location") != path+"/"+p.ID || paid.header.Get("Content-Type") != "application/json" {
		t.Fatalf("%+v, %v", paid, err)
	}
	for _, part := range []string{
		`"ride_id":"r","rider_id":"p","amount":1250,"currency":"EUR","status":"SUCCEEDED","card":{"brand":"visa","last4":"4242",` +
			`"exp_month":12,"exp_year":2099},"created_at":"20`, "Z\"}\n",
	} {
		if !strings.Contains(paid.body, part) {
			t.Errorf("the answer %s lacks %s", paid.body, part)
		}
	}
	if a := s.pay("k", valid); a.status != 201 || a.body != paid.body || a.header.Get("Idempotent-Replayed") != "true" ||
		a.header.Get("Location") != paid.header.Get("Location") {
		t.Errorf("the repeat: %+v", a)
	}
	s.wantProblem("conflict", s.pay("k", strings.Replace(valid, "1250", "1", 1)), 409, "IDEMPOTENCY_KEY_CONFLICT", "Idempotency-Key")
	if a := s.do("GET", paid.header.Get("Location"), "", nil); a.status != 200 || a.body != paid.body {
		t.Errorf("get: %+v", a)
	}
	s.processor.Decline = "card_declined"
	if a := s.pay("declined", valid); a.status != 201 || !strings.Contains(a.body, `"status":"DECLINED","decline_code":"card_declined"`) {
		t.Errorf("declined: %+v", a)
	}
	a := s.do("GET", path+"?ride_id=r", "", nil)
	if a.status != 200 || strings.Count(a.body, `"id"`) != 2 || strings.Contains(a.body, "next_after") {
		t.Errorf("list: %+v", a)
	}
	if a := s.do("GET", path+"?ride_id=nobody", "", nil); a.status != 200 || a.body != "{\"payments\":[]}\n" {
		t.Errorf("an empty list: %+v", a)
	}
}

// Each bad value is 400 and names its field; nobody is charged.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	s := newServer(t, paymenttest.NewMemory())
	for _, tc := range []struct{ from, to, field string }{
		{good, "4242424242424241", "card.number"},
		{good, "4242 4242 4242 4242", "card.number"},
		{`"` + good + `"`, good, "card.number"},
		{`"` + good + `"`, "null", "card.number"},
		{`"number":"` + good + `",`, "", "card.number"},
		{"2099", "2020", "card.exp_year"},
		{"2099", "99", "card.exp_year"},
		{"2099", `"2099"`, "card.exp_year"},
		{`,"exp_year":2099`, "", "card.exp_year"},
		{":12,", ":0,", "card.exp_month"},
		{":12,", ":13,", "card.exp_month"},
		{`"exp_month":12,`, "", "card.exp_month"},
		{":12,", ":99999999999999999999,", "card.exp_month"},
		{`"123"`, `"12"`, "card.cvc"},
		{`"123"`, "123", "card.cvc"},
		{`,"cvc":"123"`, "", "card.cvc"},
		{"EUR", "eur", "currency"},
		{"EUR", "ABC", "currency"},
		{"EUR", "XXX", "currency"},
		{"EUR", "DEM", "currency"},
		{`,"currency":"EUR"`, "", "currency"},
		{"1250", "0", "amount"},
		{"1250", "-1", "amount"},
		{"1250", "1000000000001", "amount"},
		{"1250", "1.5", "amount"},
		{"1250", "1e3", "amount"},
		{"1250", "9223372036854775808", "amount"},
		{`"amount":1250,`, "", "amount"},
		{"1250", "null", "amount"},
		{`"r"`, `""`, "ride_id"},
		{`"r"`, `"a b"`, "ride_id"},
		{`"r"`, `"` + good + `"`, "ride_id"},
		{`"ride_id":"r",`, "", "ride_id"},
		{`"p"`, `"x` + good + `"`, "rider_id"},
		{`"rider_id":"p",`, "", "rider_id"},
		{`"ride_id"`, `"Ride_id"`, "Ride_id"},
		{`"amount":1250`, `"amount":1250,"amount":1250`, "amount"},
		{`"cvc"`, `"cvv"`, "card.cvv"},
	} {
		body := strings.Replace(valid, tc.from, tc.to, 1)
		if body == valid {
			t.Fatalf("%s is not in the request", tc.from)
		}
		s.wantProblem(tc.from+" as "+tc.to, s.pay("k", body), 400, "INVALID_FIELD", tc.field)
	}
	withoutCard, _, _ := strings.Cut(valid, `,"card"`)
	s.wantProblem("no card", s.pay("k", withoutCard+"}"), 400, "INVALID_FIELD", "card")
	for _, body := range []string{"", "{", "[]", valid + "x", "nul"} {
		s.wantProblem(body, s.pay("k", body), 400, "INVALID_JSON", "")
	}
	s.wantProblem("a long body", s.pay("k", valid+strings.Repeat(" ", 70_000)), 413, "BODY_TOO_LARGE", "")
	s.wantProblem("a form", s.do("POST", path, "a=b", http.Header{
		"Idempotency-Key": {"k"}, "Content-Type": {"application/x-www-form-urlencoded"},
	}), 415, "UNSUPPORTED_MEDIA_TYPE", "")
	if s.processor.Calls() != 0 {
		t.Errorf("the processor was called %d times", s.processor.Calls())
	}
	for _, amount := range []string{"1", "1000000000000"} {
		if a := s.pay("amount "+amount, strings.Replace(valid, "1250", amount, 1)); a.status != 201 {
			t.Errorf("amount %s: %+v", amount, a)
		}
	}
}

func TestKeyHeader(t *testing.T) {
	t.Parallel()
	s := newServer(t, paymenttest.NewMemory())
	const header = "Idempotency-Key"
	for name, h := range map[string]http.Header{"missing": {}, "empty": key("")} {
		s.wantProblem(name, s.do("POST", path, valid, h), 400, "IDEMPOTENCY_KEY_REQUIRED", header)
	}
	for name, h := range map[string]http.Header{
		"twice": {header: {"a", "b"}}, "too long": key(strings.Repeat("k", 256)), "not printable": key("a\tb"), "not ASCII": key("é"),
		"quoted and empty": key(`""`), "open quote": key(`"a`), "a card number": key("k-" + good),
	} {
		s.wantProblem(name, s.do("POST", path, valid, h), 400, "INVALID_FIELD", header)
	}
	first := s.pay(`a "b"`, valid)
	if a := s.pay(`"a \"b\""`, valid); first.status != 201 || a.body != first.body {
		t.Errorf("bare %+v, quoted %+v", first, a)
	}
	if a := s.pay(strings.Repeat("k", 255), valid); a.status != 201 {
		t.Errorf("255 characters: %+v", a)
	}
}

func TestBadReads(t *testing.T) {
	t.Parallel()
	s := newServer(t, paymenttest.NewMemory())
	s.wantProblem("unknown", s.do("GET", path+"/0198c0de-0000-7000-8000-000000000000", "", nil), 404, "PAYMENT_NOT_FOUND", "id")
	for _, id := range []string{"x", good, "%00", "%ff"} {
		s.wantProblem(id, s.do("GET", path+"/"+id, "", nil), 400, "INVALID_FIELD", "id")
	}
	for query, field := range map[string]string{
		"": "ride_id", "ride_id=": "ride_id", "ride_id=" + good: "ride_id", "ride_id=r&limit=0": "limit", "ride_id=r&limit=101": "limit",
		"ride_id=r&limit=x": "limit", "ride_id=r&limit=": "limit", "ride_id=r&after=x": "after", "ride_id=r&after=!": "after",
		"ride_id=r&after=" + "MS54": "after", "ride_id=r&after=LTEuMDE5OGMwZGUtMDAwMC03MDAwLTgwMDAtMDAwMDAwMDAwMDAw": "after", "%zz": "ride_id",
	} {
		s.wantProblem(query, s.do("GET", path+"?"+query, "", nil), 400, "INVALID_FIELD", field)
	}
}

// Every page once, in order, whatever the size.
func TestPaging(t *testing.T) {
	t.Parallel()
	s := newServer(t, paymenttest.NewMemory())
	for i := range 30 {
		if a := s.pay(strconv.Itoa(i), valid); a.status != 201 {
			t.Fatal(a)
		}
	}
	for _, limit := range []string{"", "&limit=1", "&limit=7", "&limit=100"} {
		var ids []string
		for after := ""; ; {
			var page struct {
				Payments  []struct{ ID string } `json:"payments"`
				NextAfter string                `json:"next_after"`
			}
			a := s.do("GET", path+"?ride_id=r"+limit+"&after="+after, "", nil)
			if err := json.Unmarshal([]byte(a.body), &page); err != nil || a.status != 200 {
				t.Fatalf("%+v, %v", a, err)
			}
			for _, p := range page.Payments {
				ids = append(ids, p.ID)
			}
			if after = page.NextAfter; after == "" {
				break
			}
		}
		newest := slices.Clone(ids)
		slices.Sort(newest)
		slices.Reverse(newest)
		if len(ids) != 30 || len(slices.Compact(newest)) != 30 {
			t.Errorf("limit %q: %d payments, %d different", limit, len(ids), len(newest))
		}
	}
}

// Each error of the ports becomes what the contract says, and nothing of it leaks.
func TestEveryErrorIsMapped(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		err         error
		status      int
		code, field string
		retryAfter  bool
	}{
		{payment.ErrKeyConflict, 409, "IDEMPOTENCY_KEY_CONFLICT", "Idempotency-Key", false},
		{payment.ErrProcessing, 409, "PAYMENT_PROCESSING", "Idempotency-Key", true},
		{payment.ErrBusy, 503, "OVERLOADED", "", true},
		{payment.ErrProcessorFault, 502, "PROCESSOR_ERROR", "", false},
		{payment.ErrProcessorTimeout, 504, "PROCESSOR_TIMEOUT", "", false},
		{payment.ErrOutcomeUnknown, 500, "OUTCOME_UNKNOWN", "", false},
		{payment.ErrForeignFingerprint, 503, "NOT_APPLIED", "", true},
		{&payment.InvalidError{Field: "x", Rule: "is bad"}, 400, "INVALID_FIELD", "x", false},
		{errors.New("secret host db-7 is down"), 500, "INTERNAL", "", false},
	} {
		s := newServer(t, paymenttest.Failing{Err: fmt.Errorf("db-7: %w", tc.err)})
		a := s.pay("k", valid)
		s.wantProblem(tc.err.Error(), a, tc.status, tc.code, tc.field)
		if strings.Contains(a.body, "db-7") || (a.header.Get("Retry-After") != "") != tc.retryAfter {
			t.Errorf("%v: %+v", tc.err, a)
		}
	}
	s := newServer(t, paymenttest.Failing{Err: errors.New("db-7")})
	for _, target := range []string{path + "?ride_id=r", path + "/0198c0de-0000-7000-8000-000000000000"} {
		s.wantProblem(target, s.do("GET", target, "", nil), 500, "INTERNAL", "")
	}
	// A fault of the processor stays one, whatever caused it.
	both := fmt.Errorf("%w: %w", payment.ErrProcessorFault, payment.ErrForeignFingerprint)
	if p := httpapi.Problem(both); p == nil || p.Kind().Code() != "PROCESSOR_ERROR" {
		t.Errorf("%v became %v", both, p)
	}
}

// The contract and the routes name the same operations.
func TestRoutesAreThoseOfTheContract(t *testing.T) {
	t.Parallel()
	doc, err := openapi3.NewLoader().LoadFromData(api.OpenAPI)
	if err != nil {
		t.Fatal(err)
	}
	var contract []string
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			contract = append(contract, method+" "+path)
		}
	}
	var r recorder
	httpapi.Register(&r, nil, nil)
	slices.Sort(contract)
	slices.Sort(r.routes)
	if !slices.Equal(contract, r.routes) {
		t.Errorf("the contract has\n%s\nthe routes are\n%s", strings.Join(contract, "\n"), strings.Join(r.routes, "\n"))
	}
}

type recorder struct{ routes []string }

func (r *recorder) Handle(method, pattern string, _ httpserver.Handler) {
	r.routes = append(r.routes, method+" "+pattern)
}
