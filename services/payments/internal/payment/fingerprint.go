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

// canonicalRequest returns the form of a request that is hashed: JSON with the members in
// this order, numbers as digits, and no white space. No value has a character that JSON
// escapes. The security code is left out, because a stored fingerprint would tell right
// codes from wrong ones. A change of the form needs a new version.
func canonicalRequest(r Request) []byte {
	return fmt.Appendf(nil, `{"ride_id":%q,"rider_id":%q,"amount":%d,"currency":%q,`+
		`"card":{"number":%q,"exp_month":%d,"exp_year":%d}}`,
		r.RideID, r.RiderID, r.Amount, r.Currency, r.Card.Number.Reveal(), r.Card.ExpMonth, r.Card.ExpYear)
}

// Of returns the fingerprint of a request under the current secret.
func (f *Fingerprints) Of(r Request) Fingerprint { return f.of(canonicalRequest(r)) }

// Same reports whether a stored fingerprint was made of r, by its version. It returns
// ErrForeignFingerprint for a version that it cannot compare.
func (f *Fingerprints) Same(stored Fingerprint, r Request) (bool, error) {
	return f.same(stored, canonicalRequest(r))
}

// OfCard returns the fingerprint of a card's number and expiry.
func (f *Fingerprints) OfCard(c Card) Fingerprint { return f.of(canonicalCard(c)) }

// SameCard is like Same, for a fingerprint made by OfCard.
func (f *Fingerprints) SameCard(stored Fingerprint, c Card) (bool, error) {
	return f.same(stored, canonicalCard(c))
}

func canonicalCard(c Card) []byte {
	return fmt.Appendf(nil, "card %s %d %d", c.Number.Reveal(), c.ExpMonth, c.ExpYear)
}

// OfRide returns the fingerprint of a ride and its rider.
func (f *Fingerprints) OfRide(ride RideID, rider string) Fingerprint {
	return f.of(canonicalRide(ride, rider))
}

// SameRide is like Same, for a fingerprint made by OfRide.
func (f *Fingerprints) SameRide(stored Fingerprint, ride RideID, rider string) (bool, error) {
	return f.same(stored, canonicalRide(ride, rider))
}

// canonicalRide returns the form of a ride and its rider that is hashed. Their ids have no space.
func canonicalRide(ride RideID, rider string) []byte {
	return fmt.Appendf(nil, "ride %s %s", ride, rider)
}

func (f *Fingerprints) of(data []byte) Fingerprint {
	if len(f.secrets) == 0 {
		return Fingerprint{Sum: bare(data), Version: bareVersion}
	}
	return Fingerprint{Sum: keyed(f.secrets[0], data), Version: keyedVersion}
}

func (f *Fingerprints) same(stored Fingerprint, data []byte) (bool, error) {
	if stored.Version == bareVersion {
		return hmac.Equal(bare(data), stored.Sum), nil
	}
	if stored.Version != keyedVersion || len(f.secrets) == 0 {
		return false, ErrForeignFingerprint
	}
	return slices.ContainsFunc(f.secrets, func(secret []byte) bool {
		return hmac.Equal(keyed(secret, data), stored.Sum)
	}), nil
}

func bare(data []byte) []byte {
	sum := sha256.Sum256(data)
	return sum[:]
}

func keyed(secret, data []byte) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write(data)
	return mac.Sum(nil)
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
