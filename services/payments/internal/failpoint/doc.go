// Package failpoint lets a test kill a replica in the middle of a payment. It does
// nothing, and costs nothing, unless the binary is built with the tag failpoint, which
// releases are not.
package failpoint

// The steps of a payment. A replica built with the tag and started with
// ROWLOCK_FAILPOINT naming one kills itself (SIGKILL) when it comes to it.
const (
	// Claimed: the claim is committed, the processor has not been called.
	Claimed = "claimed"
	// Charging: the processor has begun and has not charged.
	Charging = "charging"
	// Charged: the charge is in the ledger, its answer was not given.
	Charged = "charged"
	// Settling: the processor has answered, the payment is not stored.
	Settling = "settling"
	// Settled: the payment is committed, the client has not been answered.
	Settled = "settled"
)
