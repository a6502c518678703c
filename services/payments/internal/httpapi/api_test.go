package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/rowlock/rowlock/platform/auth"
	"github.com/rowlock/rowlock/platform/httpserver"
	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
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
	return payment.Answer{Record: payment.Record{PaymentID: stored.ID, Receipt: receipt}, Replayed: p.replayed}, err
}

func (p *ports) Find(context.Context, payment.ID) (payment.Payment, error) { return stored, p.err }

func (p *ports) PaymentsOfRide(
	_ context.Context, _ payment.RideID, after *payment.Position, limit int,
) ([]payment.Payment, *payment.Position, error) {
	p.after, p.limit = after, limit
	return p.page, p.next, p.err
}

// stored is a payment as the domain returns it.
var stored = payment.Payment{
	ID:     "0198c0de-0000-7000-8000-000000000000",
	Fare:   payment.Fare{RideID: "r", RiderID: "p", Amount: 1250, Currency: "EUR"},
	Status: payment.Declined, DeclineCode: "card_declined",
	Card:      payment.CardFace{Brand: "visa", Last4: "4242", ExpMonth: 12, ExpYear: 2099},
	CreatedAt: time.Date(2026, 11, 21, 8, 0, 0, 120_000, time.UTC),
}

// storedJSON is its encoding, which clients have stored: a change breaks byte-for-byte replays.
const storedJSON = `{"id":"0198c0de-0000-7000-8000-000000000000","ride_id":"r","rider_id":"p","amount":1250,` +
	`"currency":"EUR","status":"DECLINED","decline_code":"card_declined","card":{"brand":"visa","last4":"4242",` +
	`"exp_month":12,"exp_year":2099},"created_at":"2026-11-21T08:00:00.000120Z"}` + "\n"

const (
	path = "/v1/payments"
	key  = "Idempotency-Key"
)

// server serves the ports.
type server struct{ *apptest.API }

func newServer(t *testing.T, p *ports) server {
	t.Helper()
	deps := httpserver.Deps{Errors: []func(error) *problem.Error{httpapi.ProblemOf}}
	return server{apptest.NewAPI(t, api.OpenAPI, 0, deps, func(e *echo.Echo) { httpapi.Register(e, p, nil) })}
}

func (s server) pay(k, body string) apptest.Answer { return s.Do("POST", path, body, key, k) }

func (s server) wantRefused(k, body string, status int, code, field string) apptest.Answer {
	return s.WantProblem("POST", path, body, status, code, field, key, k)
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
		if a.Status != 201 || a.Body != storedJSON || a.Header.Get("Content-Type") != "application/json" ||
			a.Header.Get("Location") != path+"/"+string(stored.ID) ||
			(a.Header.Get("Idempotent-Replayed") == "true") != replayed {
			t.Errorf("replayed %t: %+v", replayed, a)
		}
		r := p.requests[0]
		if p.key.Value != "k" || r.RideID != "r" || r.RiderID != "p" || r.Amount != 1250 || r.Currency != "EUR" ||
			r.Card.Number.Reveal() != good || r.Card.CVC.Reveal() != "123" || r.Card.ExpMonth != 12 || r.Card.ExpYear != 2099 {
			t.Errorf("the port was asked %q %+v", p.key, r)
		}
	}
}

func TestReadsAndPages(t *testing.T) {
	t.Parallel()
	p := &ports{}
	s := newServer(t, p)
	if a := s.Do("GET", path+"/"+strings.ToUpper(string(stored.ID)), ""); a.Status != 200 || a.Body != storedJSON {
		t.Errorf("get: %+v", a)
	}
	if a := s.Do("GET", path+"?ride_id=r", ""); a.Body != "{\"payments\":[]}\n" || p.limit != 25 || p.after != nil {
		t.Errorf("an empty page of %d after %v: %+v", p.limit, p.after, a)
	}
	p.page, p.next = []payment.Payment{stored}, &payment.Position{CreatedAt: stored.CreatedAt, ID: stored.ID}
	a := s.Do("GET", path+"?ride_id=r&limit=1", "")
	var page struct {
		Payments  []json.RawMessage `json:"payments"`
		NextAfter string            `json:"next_after"`
	}
	if err := json.Unmarshal([]byte(a.Body), &page); err != nil || len(page.Payments) != 1 || p.limit != 1 ||
		string(page.Payments[0])+"\n" != storedJSON {
		t.Fatalf("a page: %+v, %v", a, err)
	}
	s.Do("GET", path+"?ride_id=r&after="+page.NextAfter, "")
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
		{`"number":"` + good + `",`, "", "card.number"},
		{":12,", ":13,", "card.exp_month"},
		{`"123"`, "123", "card.cvc"},
		{"EUR", "eur", "currency"},
		{"1250", "1.5", "amount"},
		{`"ride_id":"r",`, "", "ride_id"},
		{`"p"`, `"x` + good + `"`, "rider_id"},
		{`"cvc"`, `"cvv"`, "card.cvv"},
	} {
		body := strings.Replace(valid, tc.from, tc.to, 1)
		if body == valid {
			t.Fatalf("%s is not in the request", tc.from)
		}
		s.wantRefused("k", body, 400, "INVALID_FIELD", tc.field)
	}
	s.wantRefused("k", `{}`, 400, "INVALID_FIELD", "ride_id")
	s.wantRefused("k", `{"card":{}}`, 400, "INVALID_FIELD", "card.number")
	for _, body := range []string{"", "[]", valid + "x"} {
		s.wantRefused("k", body, 400, "INVALID_JSON", "")
	}
	s.WantProblem("POST", path, "a=b", 415, "UNSUPPORTED_MEDIA_TYPE", "",
		key, "k", "Content-Type", "application/x-www-form-urlencoded")
	if len(p.requests) != 0 {
		t.Errorf("the port was asked %+v", p.requests)
	}
}

func TestKeyHeader(t *testing.T) {
	t.Parallel()
	p := &ports{}
	s := newServer(t, p)
	s.WantProblem("POST", path, valid, 400, "IDEMPOTENCY_KEY_REQUIRED", key)
	s.wantRefused("", valid, 400, "IDEMPOTENCY_KEY_REQUIRED", key)
	for _, k := range []string{strings.Repeat("k", 256), "a\tb", `"a`, good} {
		s.wantRefused(k, valid, 400, "INVALID_FIELD", key)
	}
	r := httptest.NewRequestWithContext(auth.WithCaller(t.Context(), "shop"), "POST", path, strings.NewReader(valid))
	r.Header = http.Header{key: {"k"}, "Content-Type": {"application/json"}}
	s.ServeHTTP(httptest.NewRecorder(), r)
	if want := (payment.Key{Caller: "shop", Value: "k"}); p.key != want {
		t.Errorf("the key is %+v, want %+v", p.key, want)
	}
	if a := s.pay(`"a,\"b\""`, valid); a.Status != 201 || p.key.Value != `a,"b"` {
		t.Errorf("a quoted key became %s: %+v", p.key, a)
	}
}

func TestBadReads(t *testing.T) {
	t.Parallel()
	s := newServer(t, &ports{})
	for _, id := range []string{"x", good, "%00", "%ff"} {
		s.WantProblem("GET", path+"/"+id, "", 400, "INVALID_FIELD", "id")
	}
	for query, field := range map[string]string{
		"": "ride_id", "ride_id=": "ride_id", "ride_id=" + good: "ride_id", "%zz": "ride_id",
		"ride_id=r&limit=x": "limit", "ride_id=r&limit=": "limit",
		"ride_id=r&after=x": "after", "ride_id=r&after=!": "after", "ride_id=r&after=MS54": "after",
		"ride_id=r&after=LTEuMDE5OGMwZGUtMDAwMC03MDAwLTgwMDAtMDAwMDAwMDAwMDAw": "after",
	} {
		s.WantProblem("GET", path+"?"+query, "", 400, "INVALID_FIELD", field)
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
		{payment.ErrProcessorFault, 502, "PROCESSOR_ERROR", "", false},
		{fmt.Errorf("%w: %w", payment.ErrProcessorFault, payment.ErrForeignFingerprint), 502, "PROCESSOR_ERROR", "", false},
		{payment.ErrProcessorTimeout, 504, "PROCESSOR_TIMEOUT", "", false},
		{payment.ErrOutcomeUnknown, 500, "OUTCOME_UNKNOWN", "", false},
		{payment.ErrForeignFingerprint, 503, "NOT_APPLIED", "", true},
		{&payment.InvalidError{Field: "x", Rule: "is bad"}, 400, "INVALID_FIELD", "x", false},
		{errors.New("secret host secret-host is down"), 500, "INTERNAL", "", false},
	} {
		s := newServer(t, &ports{err: fmt.Errorf("secret-host: %w", tc.err)})
		a := s.wantRefused("k", valid, tc.status, tc.code, tc.field)
		if strings.Contains(a.Body, "secret-host") || (a.Header.Get("Retry-After") != "") != tc.retryAfter {
			t.Errorf("%v: %+v", tc.err, a)
		}
	}
	s := newServer(t, &ports{err: payment.ErrNotFound})
	s.WantProblem("GET", path+"/"+string(stored.ID), "", 404, "PAYMENT_NOT_FOUND", "id")
	s = newServer(t, &ports{err: errors.New("secret-host")})
	s.WantProblem("GET", path+"?ride_id=r", "", 500, "INTERNAL", "")
}
