package app

import (
	"context"

	"github.com/rowlock/rowlock/platform/telemetry"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

// tracedPay is the port with a span around each call.
type tracedPay struct {
	*telemetry.Operations

	next payment.PayAPI
}

// Pay implements payment.PayAPI.
func (t tracedPay) Pay(ctx context.Context, key payment.Key, r payment.Request) (a payment.Answer, err error) {
	ctx, end := t.Start(ctx, "payments.pay")
	defer end(&err)
	return t.next.Pay(ctx, key, r)
}

// tracedLookup is the port with a span around each call.
type tracedLookup struct {
	*telemetry.Operations

	next payment.LookupAPI
}

// Payment implements payment.LookupAPI.
func (t tracedLookup) Payment(ctx context.Context, id payment.ID) (p payment.Payment, err error) {
	ctx, end := t.Start(ctx, "payments.get")
	defer end(&err)
	return t.next.Payment(ctx, id)
}

// PaymentsOfRide implements payment.LookupAPI.
func (t tracedLookup) PaymentsOfRide(
	ctx context.Context, ride payment.RideID, after *payment.Position, limit int,
) (page []payment.Payment, next *payment.Position, err error) {
	ctx, end := t.Start(ctx, "payments.list")
	defer end(&err)
	return t.next.PaymentsOfRide(ctx, ride, after, limit)
}
