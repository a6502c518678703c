package bench

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/dbtest"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }

// fakePayments stores what it acknowledges, but for every loseth payment.
type fakePayments struct {
	db   *sql.DB
	lose int

	mu   sync.Mutex
	keys map[string]bool
}

func (f *fakePayments) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("Idempotency-Key")
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}

	f.mu.Lock()
	defer f.mu.Unlock()

	if !f.keys[key] && (f.lose == 0 || (len(f.keys)+1)%f.lose != 0) {
		err := inTx(r.Context(), f.db, `INSERT INTO payments.payments VALUES ($1, $1)`, `INSERT INTO payments.processor_charges VALUES ($1)`, key)
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)

			return
		}
	}

	f.keys[key] = true

	w.WriteHeader(http.StatusCreated)
}

func inTx(ctx context.Context, db *sql.DB, payment, charge, key string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}

	_, err = tx.ExecContext(ctx, payment, key)
	if err == nil {
		_, err = tx.ExecContext(ctx, charge, key)
	}

	if err != nil {
		return errors.Join(err, tx.Rollback())
	}

	return tx.Commit()
}

func TestPaymentsBenchChecksTheBooks(t *testing.T) {
	t.Parallel()

	for name, lose := range map[string]int{"an honest service": 0, "one that loses payments": 100} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			dsn := dbtest.Empty(t)

			connector, err := pq.NewConnector(dsn)
			if err != nil {
				t.Fatal(err)
			}

			db := sql.OpenDB(connector)
			t.Cleanup(func() { _ = db.Close() })

			tx, err := db.BeginTx(t.Context(), nil)
			if err == nil {
				_, err = tx.ExecContext(t.Context(), `CREATE SCHEMA payments;
					CREATE TABLE payments.payments (idempotency_key text, processor_key text);
					CREATE TABLE payments.processor_charges (processor_key text)`)
				err = errors.Join(err, tx.Commit())
			}

			if err != nil {
				t.Fatal(err)
			}

			fake := httptest.NewServer(&fakePayments{db: db, lose: lose, keys: map[string]bool{}})
			defer fake.Close()

			o := PaymentsDefaults().Quick()
			o.Duration, o.Replicas, o.Connections = time.Second, 1, 4

			system := System{Replicas: []string{strings.TrimPrefix(fake.URL, "http://")}, DatabaseURL: dsn}

			report, err := Payments(t.Context(), system, o, io.Discard)
			if errors.Is(err, ErrNotExact) != (lose != 0) || err != nil && lose == 0 {
				t.Fatalf("%v", err)
			}

			if got := report.find(scenarioNewKeys); got == nil || got.Median.PerSecond <= 0 {
				t.Errorf("new keys: %+v", got)
			}

			var table bytes.Buffer
			if err := report.WriteTable(&table); err != nil || !strings.Contains(table.String(), "replays") {
				t.Errorf("%v: %s", err, &table)
			}
		})
	}
}

func TestPaymentsBars(t *testing.T) {
	t.Parallel()

	series := func(name string, perSecond float64) Series {
		s := Series{Name: name, Baseline: scenarioBarePayment, Runs: []Run{{Summary: Summary{PerSecond: perSecond}}}}
		s.summarize()

		return s
	}

	for _, tc := range []struct {
		fresh, again float64
		want         string
	}{
		{400, 1200, "[met met]"}, {399, 1200, "[missed met]"}, {400, 1199, "[met missed]"},
	} {
		r := &Report{
			Service: servicePayments, Options: PaymentsDefaults(),
			Scenarios: []Series{series(scenarioBarePayment, 1000), series(scenarioNewKeys, tc.fresh), series(scenarioReplays, tc.again)},
		}
		r.judge()

		verdicts := make([]Verdict, 0, len(r.Bars))
		for _, bar := range r.Bars {
			verdicts = append(verdicts, bar.Verdict)
		}

		if got := fmt.Sprint(verdicts); got != tc.want {
			t.Errorf("%+v: %s", tc, got)
		}
	}
}

func TestPaymentsOptions(t *testing.T) {
	t.Parallel()

	o := PaymentsDefaults()
	if err := o.Validate(); err != nil || o.ReplicasNeeded() != 2 || len(o.scenarios()) != 3 {
		t.Errorf("%+v: %v", o, err)
	}

	o.Only = []string{"hot-1"}
	if err := o.Validate(); err == nil || !strings.Contains(err.Error(), scenarioNewKeys) {
		t.Errorf("a scenario of counts: %v", err)
	}

	o.Only = []string{scenarioReplays}
	if _, err := Payments(t.Context(), System{Replicas: []string{"x", "x"}}, o, io.Discard); err == nil {
		t.Error("without a database it cannot look into the books")
	}
}
