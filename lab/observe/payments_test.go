package observe

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rowlock/rowlock/lab/internal/services"
)

// The simulated processor's cards.
const (
	cardGood     = "4242424242424242"
	cardDeclined = "4000000000000002"
	cardError    = "4000000000000119"
	cardTimeout  = "4000000000000259"
)

var _ = register(subject{
	service: services.Payments,
	environ: map[string]string{
		"LOCK_WAIT": "500ms", "PROCESSOR_TIMEOUT": "1s", "CLEANUP_INTERVAL": "1s", "IDEMPOTENCY_TTL": "4s",
	},
	next: paymentsLoad, perSecond: 30,

	read: get("/v1/payments?ride_id=ride"),
	rows: `SELECT FROM payments.idempotency_records WHERE key LIKE 'key-%' FOR UPDATE`,
	faults: []fault{{
		"payments' connections hang", []string{"RowlockPaymentHangs", "RowlockPaymentsSlow"}, hangPayments,
	}},
	stalls: []fault{{
		"the processor fails, and a card is charged for nothing", []string{"RowlockUnsettledCharges"}, chargeForNothing,
	}},

	healthy: map[string]string{
		"payments_unsettled_charges": "0x100", "payments_transaction_oldest_seconds": "2x100",
		"payments_transaction_limit_seconds": "6x100",
	},
	idle: map[string]string{
		// The first count comes with the first cleanup.
		"payments_unsettled_charges":          strings.Repeat("NaN ", 60) + "0x40",
		"payments_transaction_oldest_seconds": "0x100", "payments_transaction_limit_seconds": "6x100",
		"payments_transactions_overdue_total": "0x100",
	},

	story: []step{
		{pay(mark, mark, cardGood, 1250), http.StatusCreated, `POST /v1/payments
  payments.pay
    SELECT payments.idempotency_records
    BEGIN
    SET
    INSERT payments.idempotency_records
    SELECT payments.payments
    processor.charge
      INSERT payments.processor_charges
    INSERT payments.payments UPDATE payments.idempotency_records
    COMMIT
`},
		{pay(mark, mark, cardGood, 1250), http.StatusCreated, `POST /v1/payments
  payments.pay
    SELECT payments.idempotency_records
`},
		{pay(mark, "x"+mark, cardGood, 1250), http.StatusConflict, ""},
		{pay(marked, mark, cardGood, 1250), http.StatusBadRequest, ""},
		{pay("k"+mark, marked, cardGood, 1250), http.StatusBadRequest, ""},
		{pay("k"+mark, mark, luhn+"1", 1250), http.StatusBadRequest, ""},
		{pay("d"+mark, mark, cardDeclined, 1250), http.StatusCreated, ""},
		{pay("f"+mark, mark, cardError, 1250), http.StatusBadGateway, `POST /v1/payments !
  payments.pay !
    SELECT payments.idempotency_records
    BEGIN
    SET
    INSERT payments.idempotency_records
    SELECT payments.payments
    processor.charge !
      SELECT payments.processor_charges
    ROLLBACK
`},
		{get("/v1/payments?ride_id=" + mark), http.StatusOK, ""},
		{get("/v1/payments/" + marked), http.StatusBadRequest, ""},
	},
	down: []request{pay("away"+mark, mark, cardGood, 1)},
	chain: []string{
		"INSERT payments.processor_charges", "processor.charge", "payments.pay", "POST /v1/payments", "POST",
		"check payments",
	},
	secrets: []string{cardGood, cardDeclined, cardError, "a secret of the lab"},
})

func pay(key, ride, card string, amount int) request {
	return post("/v1/payments", fmt.Sprintf(`{"ride_id":%q,"rider_id":"rider%s","amount":%d,"currency":"EUR",`+
		`"card":{"number":%q,"exp_month":12,"exp_year":2099,"cvc":"987"}}`, ride, mark, amount, card),
	).with(map[string]string{"Idempotency-Key": key})
}

// paymentsLoad returns payments with new keys, some of them twice at once, with old ones again, with declined cards,
// and one key for another amount.
func paymentsLoad(n int) request {
	again := func(back int) request { return pay(fmt.Sprintf("key-%d", n-back), "ride", cardGood, 1250) }
	switch n % 20 {
	case 1, 6:
		return again(1) // at once
	case 5, 15:
		return again(5)
	case 8:
		return pay(fmt.Sprintf("key-%d", n), "ride", cardDeclined, 1250)
	case 12:
		return pay(fmt.Sprintf("key-%d", n-12), "ride", cardGood, 99)
	case 19:
		return get("/v1/payments?ride_id=ride&limit=2")
	}
	return again(0)
}

// chargeForNothing: the processor fails, then charges and does not answer in time; the client does not repeat, and
// IDEMPOTENCY_TTL passes.
func chargeForNothing(t *testing.T, r *rig) func() {
	t.Helper()
	addr := r.of(services.Payments).Ready()[0].API
	expect := func(key, card string, status int) {
		if a := r.load.to(t.Context(), addr, pay(key, "ride", card, 4200)); a.status != status {
			t.Errorf("a processor that fails was answered %d %s, want %d", a.status, a.body, status)
		}
	}
	expect("never-again", cardTimeout, http.StatusGatewayTimeout)
	for range enough { // the first failure begins a series, which has no rate yet
		began := time.Now()
		expect("fails", cardError, http.StatusBadGateway)
		r.awaitScrapes(t, began, enough)
	}
	return func() {}
}

// hangPayments: the server's side of payments' connections stands still, as on a machine that swaps. New ones are
// stopped as they come. All are stopped while they are idle: one at work may have locked what the whole server needs.
func hangPayments(t *testing.T, r *rig) func() {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	stopped := map[int64]bool{}
	var stopping sync.WaitGroup
	stopping.Go(func() {
		for ticker := time.Tick(50 * time.Millisecond); ctx.Err() == nil; <-ticker {
			for _, pid := range r.numbers(t,
				`SELECT pid FROM pg_stat_activity WHERE application_name = 'payments' AND state LIKE 'idle%'`) {
				if !stopped[pid] && syscall.Kill(int(pid), syscall.SIGSTOP) == nil {
					stopped[pid] = true
				}
			}
		}
	})
	return func() {
		cancel()
		stopping.Wait()
		for pid := range stopped {
			_ = syscall.Kill(int(pid), syscall.SIGCONT) // one that has ended needs no more
		}
	}
}
