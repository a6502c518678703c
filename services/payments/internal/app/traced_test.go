package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/services/payments/client"
)

// With tracing on every operation has a span of its own, in the trace of whoever calls
// the generated client. lab/traces looks at the whole tree.
//
//nolint:paralleltest // the exporter reads the environment of the process
func TestOperationsAreTraced(t *testing.T) {
	spans := apptest.CollectSpans(t)
	dsn, _ := open(t)
	r := start(t, dsn, spans.Environ())
	c, err := client.NewClientWithResponses(strings.TrimSuffix(r.api, "/v1/payments"), client.WithHTTPClient(spans.Client()))
	if err != nil {
		t.Fatal(err)
	}
	var id uuid.UUID
	spans.AreTraced(t, r.Stop, []apptest.Operation{
		{Name: "payments.pay", Call: func(ctx context.Context) error {
			var payment client.NewPayment
			if err := json.Unmarshal([]byte(body(1250, goodCard)), &payment); err != nil {
				return err
			}
			a, err := c.CreatePaymentWithResponse(ctx, &client.CreatePaymentParams{IdempotencyKey: "k"}, payment)
			if err != nil || a.JSON201 == nil {
				return fmt.Errorf("%+v, %w", a, err)
			}
			id = a.JSON201.Id
			return nil
		}},
		{Name: "payments.get", Call: func(ctx context.Context) error { return apptest.OK(c.GetPaymentWithResponse(ctx, id)) }},
		{Name: "payments.list", Call: func(ctx context.Context) error {
			return apptest.OK(c.ListPaymentsWithResponse(ctx, &client.ListPaymentsParams{RideId: "ride-1"}))
		}},
	})
	if !spans.Has("processor.charge") {
		t.Error("the charge has no span")
	}
}
