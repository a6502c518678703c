package payment

import (
	"crypto/rand"
	"encoding/hex"
	"time"
)

// Status is the definitive result of a payment.
type Status string

// The statuses.
const (
	// Succeeded: the card was charged.
	Succeeded Status = "SUCCEEDED"
	// Declined: the issuer refused, and DeclineCode says why.
	Declined Status = "DECLINED"
)

// Payment is a charge that succeeded or was declined.
type Payment struct {
	ID       ID
	RideID   RideID
	RiderID  string
	Amount   int64 // minor units
	Currency Currency
	Status   Status
	// DeclineCode is the processor's reason; empty unless Declined.
	DeclineCode string
	Card        CardFace
	// CreatedAt is the database's time of the claim, in microseconds.
	CreatedAt time.Time
}

// ID is a UUID in its usual form, lower case.
type ID string

// idBytes is the size of a UUID.
const idBytes = 16

// NewID returns a new UUID of version 7 (RFC 9562, section 5.7). It begins with the
// time, so that neighbours in time are neighbours in the index.
func NewID(now time.Time) ID {
	var b [idBytes]byte
	rand.Read(b[:]) // never fails: it ends the program instead
	ms := uint64(now.UnixMilli())
	for i := range 6 {
		b[i] = byte(ms >> (40 - 8*i)) //nolint:gosec // the low byte is meant
	}
	b[6] = b[6]&0x0f | 0x70
	b[8] = b[8]&0x3f | 0x80
	return formatID(b)
}

func formatID(b [idBytes]byte) ID {
	h := hex.EncodeToString(b[:])
	return ID(h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:])
}

// ParseID parses a UUID, in upper or lower case. The error is an *InvalidError.
func ParseID(s string) (ID, error) {
	var b [idBytes]byte
	if len(s) == 36 && s[8] == '-' && s[13] == '-' && s[18] == '-' && s[23] == '-' {
		if n, err := hex.Decode(b[:], []byte(s[:8]+s[9:13]+s[14:18]+s[19:23]+s[24:])); err == nil && n == idBytes {
			return formatID(b), nil
		}
	}
	return "", invalid("id", "must be a UUID")
}

// Receipt is the encoded answer to a settled payment. An adapter encodes it, the store
// keeps it with the payment, and every repeat of the request gets it back unchanged. To
// the domain it is opaque.
type Receipt struct {
	Code int
	Data []byte
}

// Answer is the result of a request to pay.
type Answer struct {
	PaymentID ID
	Receipt   Receipt
	// Replayed is true when the receipt was stored by an earlier request.
	Replayed bool
}

// Record is what is stored under an idempotency key.
type Record struct {
	Fingerprint Fingerprint
	PaymentID   ID
	Receipt     Receipt
}

// Position marks the payment after which a page begins, newest first.
type Position struct {
	CreatedAt time.Time
	ID        ID
}

// Bounds of a page.
const (
	DefaultPageSize = 25
	MaxPageSize     = 100
)
