// Package failpoint lets a test kill a replica in the middle of a payment. It does
// nothing, and costs nothing, unless the binary is built with the tag failpoint.
// Releases are built without it.
package failpoint

// The steps of a payment. A replica that is built with the tag kills itself (SIGKILL)
// when it reaches the step that ROWLOCK_FAILPOINT names.
const (
	// Claimed: the claim is committed, the processor is not yet called.
	Claimed = "claimed"
	// Charging: the processor has begun but not charged.
	Charging = "charging"
	// Charged: the charge is in the ledger, but not yet answered.
	Charged = "charged"
	// Settling: the processor has answered, the payment is not yet stored.
	Settling = "settling"
	// Settled: the payment is committed, the client is not yet answered.
	Settled = "settled"
)
