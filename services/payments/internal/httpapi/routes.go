package httpapi

import (
	"net/http"

	httpserver "github.com/rowlock/rowlock/platform/httpold"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

// router is what routes are put on; *httpserver.Server is one.
type router interface {
	Handle(method, pattern string, h httpserver.Handler)
}

const pathPayments = "/v1/payments"

// Register puts the routes of both ports on r.
func Register(r router, pay payment.PayAPI, payments payment.LookupAPI) {
	h := handlers{pay, payments}
	r.Handle(http.MethodPost, pathPayments, h.create)
	r.Handle(http.MethodGet, pathPayments, h.list)
	r.Handle(http.MethodGet, pathPayments+"/{id}", h.get)
}
