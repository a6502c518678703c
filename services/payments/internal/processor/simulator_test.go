package processor_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
	"github.com/rowlock/rowlock/services/payments/internal/postgres"
	"github.com/rowlock/rowlock/services/payments/internal/processor"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }

func ledger(t *testing.T, dsn string) *sqldb.DB {
	t.Helper()
	settings := sqldb.Settings{URL: dsn, MaxOpenConns: processor.LedgerConns, Session: sqldb.PlannedOnce()}
	return apptest.Pool(t, settings, nil)
}

func charges(t *testing.T, db *sqldb.DB) int {
	t.Helper()
	return apptest.One[int](t, db, `SELECT count(*) FROM payments.processor_charges WHERE decline_code IS NULL`)
}

func charge(t *testing.T, key, number string) payment.Charge {
	t.Helper()
	card, err := payment.NewCard(number, 12, 2099, "123")
	if err != nil {
		t.Fatal(err)
	}
	fare := payment.Fare{RideID: "ride", RiderID: "rider", Amount: 100, Currency: "EUR"}
	return payment.Charge{Key: key, Fare: fare, Card: card}
}

const good = "4242424242424242"

// One key, many callers, two simulators on one ledger: one charge.
func TestChargesOncePerKey(t *testing.T) {
	t.Parallel()
	db := ledger(t, dbtest.Postgres(t, postgres.Migrations()))
	secret := payment.NewFingerprints("s", "")
	simulators := []*processor.Simulator{
		simulator(t, db, secret, processor.Options{Timeout: 5 * time.Second}),
		simulator(t, db, secret, processor.Options{Timeout: 5 * time.Second, Latency: time.Millisecond}),
	}
	waittest.Together(t, 40, func(i int) error {
		_, err := simulators[i%2].Charge(t.Context(), charge(t, "k", good))
		return err
	})
	if n := charges(t, db); n != 1 {
		t.Errorf("%d charges, want 1", n)
	}
	for name, change := range map[string]func(*payment.Charge){
		"ride": func(c *payment.Charge) { c.RideID = "x" }, "rider": func(c *payment.Charge) { c.RiderID = "x" },
		"amount": func(c *payment.Charge) { c.Amount++ }, "currency": func(c *payment.Charge) { c.Currency = "USD" },
		"number": func(c *payment.Charge) { c.Card.Number = payment.NewSecret("4000056655665556") },
		"month":  func(c *payment.Charge) { c.Card.ExpMonth-- }, "year": func(c *payment.Charge) { c.Card.ExpYear-- },
	} {
		c := charge(t, "k", good)
		change(&c)
		if _, err := simulators[0].Charge(t.Context(), c); !errors.Is(err, payment.ErrKeyConflict) {
			t.Errorf("another %s: %v", name, err)
		}
	}
	cvc := charge(t, "k", good)
	cvc.Card.CVC = payment.NewSecret("124")
	if _, err := simulators[0].Charge(t.Context(), cvc); err != nil {
		t.Errorf("another security code: %v", err)
	}
	// An entry that cannot be compared is a fault: neither a charge nor a conflict.
	unknown := simulator(t, db, payment.NewFingerprints("", ""), processor.Options{Timeout: time.Second})
	if _, err := unknown.Charge(t.Context(), charge(t, "k", good)); !errors.Is(err, payment.ErrProcessorFault) {
		t.Errorf("a foreign fingerprint: %v", err)
	}
	// A charge with OnlyRepeat gets the answer that is there, and makes none.
	for key, want := range map[string]error{"k": nil, "another": payment.ErrNotCharged} {
		c := charge(t, key, good)
		c.OnlyRepeat = true
		if _, err := simulators[0].Charge(t.Context(), c); !errors.Is(err, want) {
			t.Errorf("only a repeat of %s: %v, want %v", key, err, want)
		}
	}
	if n := charges(t, db); n != 1 {
		t.Errorf("%d charges, want 1", n)
	}
}

// Find returns what a key was answered, a decline too, to the same ride alone, and charges nothing.
func TestFind(t *testing.T) {
	t.Parallel()
	db := ledger(t, dbtest.Postgres(t, postgres.Migrations()))
	s := simulator(t, db, payment.NewFingerprints("s", ""), processor.Options{Timeout: 5 * time.Second})
	for key, card := range map[string]string{"charged": good, "declined": "4000000000000002"} {
		if _, err := s.Charge(t.Context(), charge(t, key, card)); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		key     string
		change  func(*payment.Charge)
		decline string
		err     error
	}{
		"a charge":         {"charged", func(*payment.Charge) {}, "", nil},
		"a decline":        {"declined", func(*payment.Charge) {}, "card_declined", nil},
		"an unknown key":   {"unknown", func(*payment.Charge) {}, "", payment.ErrNotCharged},
		"another ride":     {"charged", func(c *payment.Charge) { c.RideID = "x" }, "", payment.ErrKeyConflict},
		"another rider":    {"charged", func(c *payment.Charge) { c.RiderID = "x" }, "", payment.ErrKeyConflict},
		"another amount":   {"charged", func(c *payment.Charge) { c.Amount++ }, "", payment.ErrKeyConflict},
		"another currency": {"charged", func(c *payment.Charge) { c.Currency = "USD" }, "", payment.ErrKeyConflict},
	} {
		c := charge(t, tc.key, good)
		c.Card = payment.Card{}
		tc.change(&c)
		if r, err := s.Find(t.Context(), c); r.DeclineCode != tc.decline || !errors.Is(err, tc.err) {
			t.Errorf("%s: %+v, %v; want %q, %v", name, r, err, tc.decline, tc.err)
		}
	}
	if n := charges(t, db); n != 1 {
		t.Errorf("%d charges, want 1", n)
	}
}

func TestSpecialCards(t *testing.T) {
	t.Parallel()
	db := ledger(t, dbtest.Postgres(t, postgres.Migrations()))
	s := simulator(t, db, payment.NewFingerprints("", ""), processor.Options{Timeout: time.Second})
	for _, step := range []struct {
		number, decline string
		err             error
		charges         int
	}{
		{"4000000000000002", "card_declined", nil, 0},
		{"4000000000009995", "insufficient_funds", nil, 0},
		{"4000000000000119", "", payment.ErrProcessorFault, 0},
		{"4000000000000119", "", payment.ErrNotCharged, 0},
		{"4000000000000259", "", payment.ErrProcessorTimeout, 1},
		{"4000000000000259", "", nil, 1}, // the repeat settles
		{good, "", nil, 2},
	} {
		r, err := s.Charge(t.Context(), charge(t, step.number, step.number))
		if r.DeclineCode != step.decline || !errors.Is(err, step.err) || charges(t, db) != step.charges {
			t.Errorf("%s: %+v, %v, %d charges; want %+v", step.number, r, err, charges(t, db), step)
		}
	}
}

// An error of the ledger is a fault or a timeout of the processor, and not an error of the
// payment's own database.
func TestLedgerTrouble(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	proxy := faultproxy.New(t, dsn)
	db := ledger(t, proxy.DSN(dsn))
	s := simulator(t, db, payment.NewFingerprints("", ""), processor.Options{Timeout: time.Second})
	want := func(ctx context.Context, want error) {
		t.Helper()
		_, err := s.Charge(ctx, charge(t, "k", good))
		if _, ours := sqldb.OutcomeOf(err); !errors.Is(err, want) || ours || errors.Is(err, payment.ErrNotCharged) {
			t.Errorf("%v, want %v alone", err, want)
		}
	}
	proxy.Cut(faultproxy.AfterStatement, faultproxy.RST, faultproxy.Matching("processor_charges"))
	want(t.Context(), nil) // it is sent again
	proxy.Pause()
	want(t.Context(), payment.ErrProcessorTimeout)
	proxy.Resume()
	want(t.Context(), nil)
	for _, o := range []processor.Options{{Latency: time.Hour}, {LatencyMax: 9999 * time.Hour}} {
		o.Timeout = 10 * time.Millisecond
		s = simulator(t, db, payment.NewFingerprints("", ""), o)
		if _, err := s.Charge(t.Context(), charge(t, "slow", good)); !errors.Is(err, payment.ErrProcessorTimeout) {
			t.Errorf("a slow processor: %v", err)
		}
		if _, err := s.Find(t.Context(), charge(t, "k", good)); !errors.Is(err, payment.ErrProcessorTimeout) {
			t.Errorf("a slow processor that is asked: %v", err)
		}
	}
	if n := charges(t, db); n != 1 {
		t.Errorf("%d charges, want 1", n)
	}
}
