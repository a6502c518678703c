// Package failpoint lets a test kill a replica in the middle of a payment. It does
// nothing, and costs nothing, unless the binary is built with the tag failpoint, which
// releases are not.
package failpoint

// The steps of a payment. A replica built with the tag and started with
// ROWLOCK_FAILPOINT naming one kills itself (SIGKILL) when it comes to it.
const (
	// Claimed: the key is claimed, the processor has not been called.
	Claimed = "claimed"
	// Charging: the processor has begun and has not charged.
	Charging = "charging"
	// Charged: the charge is in the ledger, the payment is not in the table.
	Charged = "charged"
	// Stored: payment and answer are written, COMMIT was not sent.
	Stored = "stored"
	// Committed: COMMIT is done, the client has not been answered.
	Committed = "committed"
)
