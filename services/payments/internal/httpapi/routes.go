package httpapi

import (
	"context"

	"github.com/labstack/echo/v4"

	"github.com/rowlock/rowlock/platform/httpserver"
	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/platform/telemetry"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

const pathPayments = "/v1/payments"

// Payments is the domain's service: see payment.Service.
type Payments interface {
	Pay(ctx context.Context, key payment.Key, r payment.Request) (payment.Answer, error)
	Find(ctx context.Context, id payment.ID) (payment.Payment, error)
	PaymentsOfRide(
		ctx context.Context, ride payment.RideID, after *payment.Position, limit int,
	) ([]payment.Payment, *payment.Position, error)
}

// handlers implement the generated ServerInterface.
type handlers struct{ payments Payments }

// Register registers the operations of the contract on e. Each gets a span from ops, which
// is nil without tracing.
func Register(e *echo.Echo, payments Payments, ops *telemetry.Operations) {
	middlewares := httpserver.Operations(ops, map[string]string{
		"createPayment": "payments.pay", "getPayment": "payments.get", "listPayments": "payments.list",
	})
	middlewares["createPayment"] = append(middlewares["createPayment"], requireKey)
	options := RegisterHandlersOptions{OperationMiddlewares: middlewares}
	RegisterHandlersWithOptions(e, handlers{payments}, options)
}

// requireKey refuses a request without an idempotency key by a separate code.
func requireKey(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if c.Request().Header.Get(payment.FieldKey) == "" {
			return keyRequired.New("The header Idempotency-Key is missing. Generate a new key for each payment, "+
				"such as a UUID, and send the same key when you repeat the request.", problem.Field(payment.FieldKey))
		}
		return next(c)
	}
}
