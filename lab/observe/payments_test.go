package observe

import (
	"fmt"
	"net/http"

	"github.com/rowlock/rowlock/lab/internal/targets"
)

// The simulated processor's cards.
const (
	cardGood     = "4242424242424242"
	cardDeclined = "4000000000000002"
	cardError    = "4000000000000119"
)

var _ = register(subject{
	service: targets.Payments,
	environ: map[string]string{
		"LOCK_WAIT": "300ms", "PROCESSOR_TIMEOUT": "500ms", "CLEANUP_INTERVAL": "1s",
	},
	story: []step{
		{pay("w"+mark, mark, cardGood, 1250), http.StatusCreated, ""},
		{pay(mark, mark, cardGood, 1250), http.StatusCreated, `POST /v1/payments
  payments.pay
    batch payments_claim
      INSERT payments.idempotency_records
    processor.charge
      batch payments_ledger
        INSERT payments.processor_charges
    batch payments_settle
      UPDATE payments.idempotency_records INSERT payments.payments
`},
		{pay(mark, mark, cardGood, 1250), http.StatusCreated, "payments.pay"},
		{pay(mark, "x"+mark, cardGood, 1250), http.StatusConflict, ""},
		{pay(mark+cardGood, mark, cardGood, 1250), http.StatusBadRequest, ""},
		{pay("k"+mark, mark+cardGood, cardGood, 1250), http.StatusBadRequest, ""},
		{pay("k"+mark, mark, luhn+"1", 1250), http.StatusBadRequest, ""},
		{pay("d"+mark, mark, cardDeclined, 1250), http.StatusCreated, ""},
		{pay("f"+mark, mark, cardError, 1250), http.StatusBadGateway, `POST /v1/payments !
  payments.pay !
    batch payments_claim
      INSERT payments.idempotency_records
    processor.charge !
      SELECT payments.processor_charges
    batch payments_change
      UPDATE payments.idempotency_records DELETE payments.idempotency_records
`},
		{get("/v1/payments?ride_id=" + mark), http.StatusOK, "payments.list"},
		{get("/v1/payments/" + unknown), http.StatusNotFound, "payments.get"},
		{get("/v1/payments/" + marked), http.StatusBadRequest, ""},
	},
	down:    []request{pay("away"+mark, mark, cardGood, 1)},
	last:    "INSERT payments.processor_charges",
	secrets: []string{cardGood, cardDeclined, cardError, "a secret of the lab"},
})

func pay(key, ride, card string, amount int) request {
	return post("/v1/payments", fmt.Sprintf(`{"ride_id":%q,"rider_id":"rider%s","amount":%d,"currency":"EUR",`+
		`"card":{"number":%q,"exp_month":12,"exp_year":2099,"cvc":"987"}}`, ride, mark, amount, card),
	).with(map[string]string{"Idempotency-Key": key})
}
