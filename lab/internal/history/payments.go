package history

import "time"

// PaymentInput describes a request to pay under one idempotency key.
type PaymentInput struct{ Amount int64 }

// PaymentOutput holds what the client was answered.
type PaymentOutput struct {
	ID       string
	Replayed bool
}

// payment holds what stands under an idempotency key.
type payment struct {
	paid   bool
	amount int64
	id     string // "" when it was paid by a request whose answer was lost
	// The key was taken between these two times: its life is counted from there.
	from, to time.Duration
}

// Payments returns the model of an idempotency key that lives for keyLife: the first
// request pays, the others get its answer, and another amount is a conflict. When the
// key's life is over, the next request pays anew.
//
// Before the payment stands, a charge whose transaction was lost may already bind the
// key to an amount, so any conflict is explained then; afterwards only by another amount.
func Payments(keyLife time.Duration) Model {
	m := newModel(payment{}, func(s payment, in PaymentInput, op Op) []payment {
		mayBeOver := op.Return > s.from+keyLife-ClockSlack
		isOver := s.to != Never && op.Call > s.to+keyLife+ClockSlack
		free := !s.paid || mayBeOver
		switch op.Outcome {
		case OK:
			out, _ := op.Output.(PaymentOutput)
			if !out.Replayed {
				return when(free, payment{true, in.Amount, out.ID, op.Call, op.Return})
			}
			same := in.Amount == s.amount && (s.id == "" || s.id == out.ID)
			return when(s.paid && !isOver && same, payment{true, s.amount, out.ID, s.from, min(s.to, op.Return)})
		case Unknown:
			// One that changed nothing is placed after all others, where it has no effect.
			if free {
				return when(true, payment{true, in.Amount, "", op.Call, Never})
			}
		case Refused:
			return when(free || in.Amount != s.amount, s)
		case NotApplied:
		}
		return when(true, s)
	})
	m.Refusals = true
	return m
}
