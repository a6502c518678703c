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
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/platform/bulkhead"
	httpserver "github.com/rowlock/rowlock/platform/httpold"
	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/services/payments/api"
	"github.com/rowlock/rowlock/services/payments/internal/httpapi"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

// ports answers the inbound ports as its fields say, and records what it was asked.
type ports struct {
	replayed bool
	page     []payment.Payment
	next     *payment.Position
	err      error

	key      payment.Key
	requests []payment.Request
	after    *payment.Position
	limit    int
}

func (p *ports) Pay(_ context.Context, key payment.Key, r payment.Request) (payment.Answer, error) {
	p.key, p.requests = key, append(p.requests, r)
	if p.err != nil {
		return payment.Answer{}, p.err
	}
	receipt, err := httpapi.Encode(stored)
	return payment.Answer{PaymentID: stored.ID, Receipt: receipt, Replayed: p.replayed}, err
}

func (p *ports) Payment(context.Context, payment.ID) (payment.Payment, error) { return stored, p.err }

func (p *ports) PaymentsOfRide(
	_ context.Context, _ payment.RideID, after *payment.Position, limit int,
) ([]payment.Payment, *payment.Position, error) {
	p.after, p.limit = after, limit
	return p.page, p.next, p.err
}

// stored is a payment as the domain returns it.
var stored = payment.Payment{ //nolint:gochecknoglobals // constant
	ID: "0198c0de-0000-7000-8000-000000000000", RideID: "r", RiderID: "p", Amount: 1250, Currency: "EUR",
	Status: payment.Declined, DeclineCode: "card_declined",
	Card:      payment.CardFace{Brand: "visa", Last4: "4242", ExpMonth: 12, ExpYear: 2099},
	CreatedAt: time.Date(2026, 11, 21, 8, 0, 0, 120_000, time.UTC),
}

// storedJSON is its encoding, which clients have stored: a change breaks byte-for-byte replays.
const storedJSON = `{"id":"0198c0de-0000-7000-8000-000000000000","ride_id":"r","rider_id":"p","amount":1250,` +
	`"currency":"EUR","status":"DECLINED","decline_code":"card_declined","card":{"brand":"visa","last4":"4242",` +
	`"exp_month":12,"exp_year":2099},"created_at":"2026-11-21T08:00:00.000120Z"}` + "\n"

// server serves the ports and checks every answer against the contract.
type server struct {
	t      *testing.T
	http   *httpserver.Server
	router routers.Router
}

func newServer(t *testing.T, p *ports) *server {
	t.Helper()
	s, err := httpserver.New(httpserver.Config{Name: "api", LogRequests: "none"}, httpserver.Deps{
		Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(),
		Errors: []func(error) *problem.Error{httpapi.Problem},
	})
	if err != nil {
		t.Fatal(err)
	}
	httpapi.Register(s, p, p)
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
	return &server{t: t, http: s, router: router}
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

func TestPay(t *testing.T) {
	t.Parallel()
	for _, replayed := range []bool{false, true} {
		p := &ports{replayed: replayed}
		a := newServer(t, p).pay("k", valid)
		if a.status != 201 || a.body != storedJSON || a.header.Get("Content-Type") != "application/json" ||
			a.header.Get("Location") != path+"/"+string(stored.ID) ||
			(a.header.Get("Idempotent-Replayed") == "true") != replayed {
			t.Errorf("replayed %t: %+v", replayed, a)
		}
		r := p.requests[0]
		if p.key != "k" || r.RideID != "r" || r.RiderID != "p" || r.Amount != 1250 || r.Currency != "EUR" ||
			r.Card.Number.Reveal() != good || r.Card.CVC.Reveal() != "123" || r.Card.ExpMonth != 12 || r.Card.ExpYear != 2099 {
			t.Errorf("the port was asked %q %+v", p.key, r)
		}
	}
}

func TestReadsAndPages(t *testing.T) {
	t.Parallel()
	p := &ports{}
	s := newServer(t, p)
	if a := s.do("GET", path+"/"+strings.ToUpper(string(stored.ID)), "", nil); a.status != 200 || a.body != storedJSON {
		t.Errorf("get: %+v", a)
	}
	if a := s.do("GET", path+"?ride_id=r", "", nil); a.body != "{\"payments\":[]}\n" || p.limit != 25 || p.after != nil {
		t.Errorf("an empty page of %d after %v: %+v", p.limit, p.after, a)
	}
	p.page, p.next = []payment.Payment{stored}, &payment.Position{CreatedAt: stored.CreatedAt, ID: stored.ID}
	a := s.do("GET", path+"?ride_id=r&limit=1", "", nil)
	var page struct {
		Payments  []json.RawMessage `json:"payments"`
		NextAfter string            `json:"next_after"`
	}
	if err := json.Unmarshal([]byte(a.body), &page); err != nil || len(page.Payments) != 1 || p.limit != 1 ||
		string(page.Payments[0])+"\n" != storedJSON {
		t.Fatalf("a page: %+v, %v", a, err)
	}
	s.do("GET", path+"?ride_id=r&after="+page.NextAfter, "", nil)
	if p.after == nil || *p.after != *p.next {
		t.Errorf("next_after became %+v, want %+v", p.after, p.next)
	}
}

// Each bad value is 400 and names its field, and the port is not called.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	p := &ports{}
	s := newServer(t, p)
	for _, tc := range []struct{ from, to, field string }{
		{good, "4242424242424241", "card.number"},
		{`"` + good + `"`, good, "card.number"},
		{`"` + good + `"`, "null", "card.number"},
		{`"number":"` + good + `",`, "", "card.number"},
		{"2099", "99", "card.exp_year"},
		{"2099", `"2099"`, "card.exp_year"},
		{`,"exp_year":2099`, "", "card.exp_year"},
		{":12,", ":13,", "card.exp_month"},
		{`"exp_month":12,`, "", "card.exp_month"},
		{":12,", ":99999999999999999999,", "card.exp_month"},
		{`"123"`, `"12"`, "card.cvc"},
		{`"123"`, "123", "card.cvc"},
		{`,"cvc":"123"`, "", "card.cvc"},
		{"EUR", "eur", "currency"},
		{`,"currency":"EUR"`, "", "currency"},
		{"1250", "0", "amount"},
		{"1250", "1.5", "amount"},
		{"1250", "1e3", "amount"},
		{"1250", "1250.0", "amount"},
		{"1250", `"1250"`, "amount"},
		{"1250", "9223372036854775808", "amount"},
		{`"amount":1250,`, "", "amount"},
		{"1250", "null", "amount"},
		{`"r"`, `"a b"`, "ride_id"},
		{`"ride_id":"r",`, "", "ride_id"},
		{`"p"`, `"x` + good + `"`, "rider_id"},
		{`"rider_id":"p",`, "", "rider_id"},
		{`"ride_id"`, `"Ride_id"`, "Ride_id"},
		{`"amount":1250`, `"amount":1250,"amount":1250`, "amount"},
		{`"cvc"`, `"cvv"`, "card.cvv"},
		{`"EUR","card":{"number":"` + good + `","exp_month":12,"exp_year":2099,"cvc":"123"}`, `"EUR"`, "card"},
	} {
		body := strings.Replace(valid, tc.from, tc.to, 1)
		if body == valid {
			t.Fatalf("%s is not in the request", tc.from)
		}
		s.wantProblem(tc.from+" as "+tc.to, s.pay("k", body), 400, "INVALID_FIELD", tc.field)
	}
	for _, body := range []string{"", "{", "[]", valid + "x", "nul", strings.Replace(valid, "1250", "01250", 1)} {
		s.wantProblem(body, s.pay("k", body), 400, "INVALID_JSON", "")
	}
	s.wantProblem("a long body", s.pay("k", valid+strings.Repeat(" ", 70_000)), 413, "BODY_TOO_LARGE", "")
	form := http.Header{"Idempotency-Key": {"k"}, "Content-Type": {"application/x-www-form-urlencoded"}}
	s.wantProblem("a form", s.do("POST", path, "a=b", form), 415, "UNSUPPORTED_MEDIA_TYPE", "")
	if len(p.requests) != 0 {
		t.Errorf("the port was asked %+v", p.requests)
	}
}

func TestKeyHeader(t *testing.T) {
	t.Parallel()
	p := &ports{}
	s := newServer(t, p)
	const header = "Idempotency-Key"
	for name, h := range map[string]http.Header{"missing": {}, "empty": key("")} {
		s.wantProblem(name, s.do("POST", path, valid, h), 400, "IDEMPOTENCY_KEY_REQUIRED", header)
	}
	for name, h := range map[string]http.Header{
		"twice": {header: {"a", "b"}}, "too long": key(strings.Repeat("k", 256)), "not printable": key("a\tb"),
		"not ASCII": key("é"), "quoted and empty": key(`""`), "open quote": key(`"a`), "a card number": key("k-" + good),
	} {
		s.wantProblem(name, s.do("POST", path, valid, h), 400, "INVALID_FIELD", header)
	}
	for header, want := range map[string]payment.Key{`a "b"`: `a "b"`, `"a \"b\""`: `a "b"`} {
		if a := s.pay(header, valid); a.status != 201 || p.key != want {
			t.Errorf("%s became %s: %+v", header, p.key, a)
		}
	}
}

func TestBadReads(t *testing.T) {
	t.Parallel()
	s := newServer(t, &ports{})
	for _, id := range []string{"x", good, "%00", "%ff"} {
		s.wantProblem(id, s.do("GET", path+"/"+id, "", nil), 400, "INVALID_FIELD", "id")
	}
	for query, field := range map[string]string{
		"": "ride_id", "ride_id=": "ride_id", "ride_id=" + good: "ride_id", "%zz": "ride_id",
		"ride_id=r&limit=x": "limit", "ride_id=r&limit=": "limit",
		"ride_id=r&after=x": "after", "ride_id=r&after=!": "after", "ride_id=r&after=MS54": "after",
		"ride_id=r&after=LTEuMDE5OGMwZGUtMDAwMC03MDAwLTgwMDAtMDAwMDAwMDAwMDAw": "after",
	} {
		s.wantProblem(query, s.do("GET", path+"?"+query, "", nil), 400, "INVALID_FIELD", field)
	}
}

// Each error of the ports becomes what the contract says, without its text.
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
		{bulkhead.ErrBusy, 409, "PAYMENT_PROCESSING", "Idempotency-Key", true},
		{bulkhead.ErrFull, 503, "OVERLOADED", "", true},
		{errors.Join(bulkhead.ErrBusy, context.Canceled), 503, "OVERLOADED", "", true},
		{payment.ErrProcessorFault, 502, "PROCESSOR_ERROR", "", false},
		{fmt.Errorf("%w: %w", payment.ErrProcessorFault, payment.ErrForeignFingerprint), 502, "PROCESSOR_ERROR", "", false},
		{payment.ErrProcessorTimeout, 504, "PROCESSOR_TIMEOUT", "", false},
		{payment.ErrOutcomeUnknown, 500, "OUTCOME_UNKNOWN", "", false},
		{payment.ErrForeignFingerprint, 503, "NOT_APPLIED", "", true},
		{&payment.InvalidError{Field: "x", Rule: "is bad"}, 400, "INVALID_FIELD", "x", false},
		{errors.New("secret host db-7 is down"), 500, "INTERNAL", "", false},
	} {
		s := newServer(t, &ports{err: fmt.Errorf("db-7: %w", tc.err)})
		a := s.pay("k", valid)
		s.wantProblem(tc.err.Error(), a, tc.status, tc.code, tc.field)
		if strings.Contains(a.body, "db-7") || (a.header.Get("Retry-After") != "") != tc.retryAfter {
			t.Errorf("%v: %+v", tc.err, a)
		}
	}
	s := newServer(t, &ports{err: payment.ErrNotFound})
	s.wantProblem("get", s.do("GET", path+"/"+string(stored.ID), "", nil), 404, "PAYMENT_NOT_FOUND", "id")
	s = newServer(t, &ports{err: errors.New("db-7")})
	s.wantProblem("list", s.do("GET", path+"?ride_id=r", "", nil), 500, "INTERNAL", "")
}
