package payment

import (
	"crypto/rand"
	"encoding/hex"
	"regexp"
	"strings"
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
	Fare

	ID     ID
	Status Status
	// DeclineCode is the processor's reason; empty unless Declined.
	DeclineCode string
	Card        CardFace
	// CreatedAt is the database's time of the claim, in microseconds.
	CreatedAt time.Time
}

// ID is a UUID in its usual form, lower case.
type ID string

// NewID returns a new UUID of version 7 (RFC 9562, section 5.7). It begins with the time,
// so that neighbours in time are neighbours in the index.
func NewID(now time.Time) ID {
	var b [16]byte
	rand.Read(b[:]) // never fails; it would end the program
	ms := uint64(now.UnixMilli())
	for i := range 6 {
		b[i] = byte(ms >> (40 - 8*i))
	}
	b[6] = b[6]&0x0f | 0x70
	b[8] = b[8]&0x3f | 0x80
	h := hex.EncodeToString(b[:])
	return ID(h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:])
}

var idForm = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// ParseID parses a UUID, in upper or lower case. The error is an *InvalidError.
func ParseID(s string) (ID, error) {
	s = strings.ToLower(s)
	if !idForm.MatchString(s) {
		return "", invalid("id", "must be a UUID")
	}
	return ID(s), nil
}

// Receipt is the encoded answer to a settled payment. An adapter encodes it, the store
// keeps it with the payment, and every repeat of the request gets it unchanged. It is
// opaque to the domain.
type Receipt struct {
	Code int
	Data []byte
}

// Answer is the result of a request to pay.
type Answer struct {
	Record

	// Replayed says that an earlier request stored the receipt.
	Replayed bool
}

// Record is the answer stored under an idempotency key.
type Record struct {
	PaymentID ID
	Receipt   Receipt
}

// Position marks the payment after which a page begins, newest first.
type Position struct {
	CreatedAt time.Time
	ID        ID
}

// The limits of a page.
const (
	DefaultPageSize = 25
	MaxPageSize     = 100
)
