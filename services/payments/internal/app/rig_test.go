package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	_ "github.com/lib/pq" // the driver

	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/services/payments/internal/app"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }

// The simulator's cards.
const (
	goodCard     = "4242424242424242"
	declinedCard = "4000000000000002"
	faultCard    = "4000000000000119"
	timeoutCard  = "4000000000000259"
)

// replica is one running App.
type replica struct {
	app        *app.App
	api, admin string
	log        *lockedBuffer
	stop       func() error
}

// lockedBuffer is a log that is read while it is written.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// start runs a replica on dsn until the test ends or stop is called.
func start(t *testing.T, dsn string, environ map[string]string) *replica {
	t.Helper()
	env := map[string]string{
		"DATABASE_URL": dsn, "HTTP_ADDR": "127.0.0.1:0", "ADMIN_ADDR": "127.0.0.1:0", "LOG_REQUESTS": "all", "FINGERPRINT_SECRET": "for tests",
	}
	maps.Copy(env, environ)
	var cfg app.Config
	if err := config.Load(&cfg, env); err != nil {
		t.Fatal(err)
	}
	r := &replica{log: &lockedBuffer{}}
	a, err := app.New(t.Context(), cfg, app.Process{Output: r.log})
	if err != nil {
		t.Fatal(err)
	}
	r.app = a
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	r.stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() {
		if err := r.stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
		if t.Failed() {
			t.Log(r.log)
		}
	})
	waitUntil(t, "the replica is ready", func() bool {
		if a.AdminAddr() == nil {
			return false
		}
		r.admin = "http://" + a.AdminAddr().String()
		return get(t, r.admin+"/readyz").status == http.StatusOK
	})
	r.api = "http://" + a.Addr().String() + "/v1/payments"
	return r
}

// startAll runs n replicas.
func startAll(t *testing.T, dsn string, n int, environ map[string]string) []*replica {
	t.Helper()
	all := make([]*replica, n)
	for i := range all {
		all[i] = start(t, dsn, environ)
	}
	return all
}

// waitUntil polls a condition for ten seconds at most.
func waitUntil(t *testing.T, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); <-tick.C {
		if condition() {
			return
		}
	}
	t.Fatalf("not within ten seconds: %s", what)
}

// client keeps enough connections for the tests' crowds.
var client = &http.Client{ //nolint:gochecknoglobals // safe for everybody at once
	// Idle connections go before the server closes them, which takes it five seconds
	// for one that was opened in vain: a POST that meets the close would be lost.
	Transport: &http.Transport{MaxIdleConnsPerHost: 400, IdleConnTimeout: 2 * time.Second},
	Timeout:   30 * time.Second,
}

// answer is what came back; status 0 when nothing did.
type answer struct {
	status   int
	header   http.Header
	body     string
	code     string // of a problem
	field    string
	replayed bool
	took     time.Duration
}

func (a answer) String() string { return fmt.Sprintf("%d %s", a.status, a.body) }

func send(t *testing.T, method, url, body string, header map[string]string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	begin := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		return answer{body: err.Error()}
	}
	data, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return answer{body: err.Error()}
	}
	a := answer{
		status: resp.StatusCode, header: resp.Header, body: string(data), took: time.Since(begin),
		replayed: resp.Header.Get("Idempotent-Replayed") == "true",
	}
	if resp.Header.Get("Content-Type") == problem.ContentType {
		var p struct{ Code, Field string }
		if err := json.Unmarshal(data, &p); err != nil {
			t.Errorf("not a problem: %s", a)
		}
		a.code, a.field = p.Code, p.Field
	}
	return a
}

func get(t *testing.T, url string) answer {
	t.Helper()
	return send(t, http.MethodGet, url, "", nil)
}

// pay sends a payment.
func (r *replica) pay(t *testing.T, key, body string) answer {
	t.Helper()
	return send(t, http.MethodPost, r.api, body, map[string]string{"Idempotency-Key": key, "Content-Type": "application/json"})
}

// body is a request to pay.
func body(amount int, card string) string {
	return fmt.Sprintf(`{"ride_id":"ride-1","rider_id":"rider-1","amount":%d,"currency":"EUR",`+
		`"card":{"number":"%s","exp_month":12,"exp_year":2099,"cvc":"123"}}`, amount, card)
}

// want demands a status and, below 400, a status in the body.
func (a answer) want(t *testing.T, status int, codeOrStatus string) answer {
	t.Helper()
	got := a.code
	if a.status < http.StatusBadRequest {
		var p struct {
			Status string `json:"status"`
		}
		if err := json.Unmarshal([]byte(a.body), &p); err != nil {
			t.Fatalf("%s: %v", a, err)
		}
		got = p.Status
	}
	if a.status != status || got != codeOrStatus {
		t.Fatalf("got %s, want %d %s", a, status, codeOrStatus)
	}
	return a
}

// base is a look at the database behind the service's back.
type base struct{ db *sqlx.DB }

func open(t *testing.T, dsn string) base {
	t.Helper()
	db, err := sqlx.ConnectContext(t.Context(), "postgres", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return base{db}
}

// counts demands how many payments, charges and records there are.
func (b base) counts(t *testing.T, payments, charges, records int) {
	t.Helper()
	var got struct{ Payments, Charges, Records int }
	err := b.db.GetContext(t.Context(), &got, `SELECT (SELECT count(*) FROM payments.payments) AS payments,
		(SELECT count(*) FROM payments.processor_charges WHERE decline_code IS NULL) AS charges,
		(SELECT count(*) FROM payments.idempotency_records) AS records`)
	if err != nil {
		t.Fatal(err)
	}
	if got.Payments != payments || got.Charges != charges || got.Records != records {
		t.Errorf("%d payments, %d charges, %d records; want %d, %d, %d",
			got.Payments, got.Charges, got.Records, payments, charges, records)
	}
}

func (b base) execute(t *testing.T, statement string) {
	t.Helper()
	tx, err := b.db.BeginTxx(t.Context(), nil)
	if err == nil {
		_, err = tx.ExecContext(t.Context(), statement)
		err = errors.Join(err, tx.Commit())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// metric reads one series of a replica; NaN-free, 0 when absent.
func (r *replica) metric(t *testing.T, series string) float64 {
	t.Helper()
	for line := range strings.Lines(get(t, r.admin+"/metrics").body) {
		if rest, ok := strings.CutPrefix(line, series+" "); ok {
			var v float64
			if _, err := fmt.Sscan(rest, &v); err != nil {
				t.Fatal(err)
			}
			return v
		}
	}
	t.Errorf("/metrics lacks %s", series)
	return 0
}
