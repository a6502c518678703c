package payment

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
)

// Fingerprint identifies content without containing it.
type Fingerprint struct {
	Sum []byte // SHA-256 or HMAC-SHA-256: 32 bytes
	// Version names the algorithm and the form of the content, but no secret.
	Version string
}

// The versions of new fingerprints.
const (
	keyedVersion = "hmac-sha256-2"
	bareVersion  = "sha256-2" // SHA-256 without a secret
)

// MinSecret is the minimum length of a secret in bytes, the output size of HMAC-SHA-256.
const MinSecret = sha256.Size

// Fingerprints makes and compares fingerprints. With a secret they are HMACs. A bare
// hash does not protect the card: a reader of the table knows the other fields and can
// try all card numbers.
type Fingerprints struct {
	secrets [][]byte // the first makes, all compare; without any, hashes are bare
}

// NewFingerprints returns a maker of fingerprints with the secret, or of bare ones if it
// is empty. It also compares fingerprints made with the previous secret, so that secrets
// can be rotated, and bare ones.
func NewFingerprints(secret, previous string) *Fingerprints {
	f := &Fingerprints{}
	for _, s := range []string{secret, previous} {
		if s != "" {
			f.secrets = append(f.secrets, []byte(s))
		}
	}
	return f
}

// Canonical returns the form of a request that is hashed: JSON with the members in this order, numbers as digits, and
// no white space. No value has a character that JSON escapes. The security code is left out, because a stored
// fingerprint would tell right codes from wrong ones. A change of the form needs a new version.
func (r Request) Canonical() []byte {
	return fmt.Appendf(nil, `{"ride_id":%q,"rider_id":%q,"amount":%d,"currency":%q,`+
		`"card":{"number":%q,"exp_month":%d,"exp_year":%d}}`,
		r.RideID, r.RiderID, r.Amount, r.Currency, r.Card.Number.Reveal(), r.Card.ExpMonth, r.Card.ExpYear)
}

// Canonical returns the form of a card's number and expiry that is hashed.
func (c Card) Canonical() []byte {
	return fmt.Appendf(nil, "card %s %d %d", c.Number.Reveal(), c.ExpMonth, c.ExpYear)
}

// CanonicalRide returns the form of a ride and its rider that is hashed. Their ids have no space.
func CanonicalRide(ride RideID, rider string) []byte {
	return fmt.Appendf(nil, "ride %s %s", ride, rider)
}

// Of returns the fingerprint of a canonical form under the current secret.
func (f *Fingerprints) Of(form []byte) Fingerprint {
	if len(f.secrets) == 0 {
		return Fingerprint{Sum: sum(nil, form), Version: bareVersion}
	}
	return Fingerprint{Sum: sum(f.secrets[0], form), Version: keyedVersion}
}

// Same reports whether a stored fingerprint was made of the canonical form, by its version. It returns
// ErrForeignFingerprint for a version that it cannot compare.
func (f *Fingerprints) Same(stored Fingerprint, form []byte) (bool, error) {
	if stored.Version == bareVersion {
		return hmac.Equal(sum(nil, form), stored.Sum), nil
	}
	if stored.Version != keyedVersion || len(f.secrets) == 0 {
		return false, ErrForeignFingerprint
	}
	return slices.ContainsFunc(f.secrets, func(secret []byte) bool {
		return hmac.Equal(sum(secret, form), stored.Sum)
	}), nil
}

// sum returns the HMAC of data, or its hash without a secret.
func sum(secret, data []byte) []byte {
	h := sha256.New()
	if secret != nil {
		h = hmac.New(sha256.New, secret)
	}
	h.Write(data)
	return h.Sum(nil)
}

// ProcessorKey returns the key under which the processor charges once: SHA-256(caller,
// 0x00, value, 0x00, n) in hexadecimal, without the first two if there is no caller. n is the
// number of payments stored under the key, in decimal. Neither value nor n contains 0x00.
func ProcessorKey(key Key, n int) string {
	text := key.Value + "\x00" + strconv.Itoa(n)
	if key.Caller != "" {
		text = key.Caller + "\x00" + text
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
