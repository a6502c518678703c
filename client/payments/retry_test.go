package payments_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	rowlock "github.com/rowlock/rowlock/client"
	"github.com/rowlock/rowlock/client/internal/clienttest"
	"github.com/rowlock/rowlock/client/payments"
)

func TestMain(m *testing.M) { os.Exit(clienttest.Main(m, "PAYMENTS_URL")) }

// A payment is repeated with its key while another request holds that, and after an answer of the processor that
// leaves it open.
func TestRetries(t *testing.T) {
	t.Parallel()
	paid := clienttest.Answer{Status: 201, Body: `{"id":"0198f3c2-0000-7000-8000-000000000001","status":"SUCCEEDED"}`}
	timeout := clienttest.Answer{Status: 504, Body: `{"code":"PROCESSOR_TIMEOUT"}`}
	conflict := clienttest.Answer{Status: 409, Body: `{"code":"IDEMPOTENCY_KEY_CONFLICT"}`}
	held := clienttest.Answer{Status: 409, Body: `{"code":"PAYMENT_PROCESSING"}`, After: "1"}
	for name, tc := range map[string]struct {
		answers []clienttest.Answer
		sent    int
		code    error
		unknown bool
	}{
		"held":              {[]clienttest.Answer{held, held, paid}, 3, nil, false},
		"held for good":     {[]clienttest.Answer{held}, 8, payments.ErrProcessing, false},
		"lost, then held":   {[]clienttest.Answer{clienttest.Lost, held}, 8, rowlock.ErrAnswerLost, true},
		"processor timeout": {[]clienttest.Answer{timeout, paid}, 2, nil, false},
		"another payment's": {[]clienttest.Answer{conflict}, 1, payments.ErrKeyConflict, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &clienttest.Script{Answers: tc.answers}
				c, err := payments.New("http://payments", s.Option())
				if err != nil {
					t.Fatal(err)
				}
				_, _, err = c.Create(t.Context(), "key", payments.NewPayment{})
				if tc.code == nil && err != nil || !errors.Is(err, tc.code) || rowlock.OutcomeUnknown(err) != tc.unknown {
					t.Errorf("%v, want %v", err, tc.code)
				}
				if tc.unknown && (errors.Is(err, payments.ErrProcessing) || !strings.Contains(err.Error(), "PROCESSING")) {
					t.Errorf("what came of the repeats is for people only: %v", err)
				}
				if got := strings.Join(s.Keys, " "); got != strings.TrimSpace(strings.Repeat("key ", tc.sent)) {
					t.Errorf("the keys are %q, want %d", got, tc.sent)
				}
			})
		})
	}
}
