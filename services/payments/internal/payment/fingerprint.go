package payment

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
)

// Fingerprint identifies the content of a request without holding it.
type Fingerprint struct {
	Sum []byte // SHA-256 or HMAC-SHA-256: 32 bytes
	// Version names the algorithm and, where there is one, the secret.
	Version string
}

// bareVersion is SHA-256 without a secret.
const bareVersion = "sha256-1"

// Fingerprints makes and compares fingerprints. With a secret they are HMACs. A bare
// hash does not protect the card: a reader of the table knows the other fields and can
// try all card numbers.
type Fingerprints struct {
	makers []maker // the first makes, all compare
}

type maker struct {
	version string
	secret  []byte // nil: bare
}

// NewFingerprints returns a maker of fingerprints with the secret, of bare ones when it
// is empty. It also compares those made with the previous secret, so that a secret can
// be rotated.
func NewFingerprints(secret, previous string) *Fingerprints {
	bare := maker{version: bareVersion}
	if secret == "" {
		return &Fingerprints{[]maker{bare}}
	}
	f := &Fingerprints{[]maker{keyed(secret), bare}}
	if previous != "" {
		f.makers = append(f.makers, keyed(previous))
	}
	return f
}

// keyed returns a maker whose version names the secret by a MAC under it, which does not
// reveal it.
func keyed(secret string) maker {
	const nameBytes = 4
	name := digest([]byte(secret), []byte("rowlock payments: name of the secret"))
	return maker{version: "hmac-sha256-1:" + hex.EncodeToString(name[:nameBytes]), secret: []byte(secret)}
}

func digest(secret, data []byte) []byte {
	if secret == nil {
		sum := sha256.Sum256(data)
		return sum[:]
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write(data)
	return mac.Sum(nil)
}

// canonicalRequest returns the hashed form of a request, which is JSON: the members in
// this order, numbers as digits, no white space. No value holds a character that JSON
// escapes. A change of the form needs a new version.
func canonicalRequest(r Request) []byte {
	card := r.Card
	return fmt.Appendf(nil, `{"ride_id":%q,"rider_id":%q,"amount":%d,"currency":%q,`+
		`"card":{"number":%q,"exp_month":%d,"exp_year":%d,"cvc":%q}}`,
		r.RideID, r.RiderID, r.Amount, r.Currency, card.Number.Reveal(), card.ExpMonth, card.ExpYear, card.CVC.Reveal())
}

// Of returns the fingerprint of a request under the current secret.
func (f *Fingerprints) Of(r Request) Fingerprint { return f.of(canonicalRequest(r)) }

// Same reports whether a stored fingerprint is that of r, by the stored one's own
// version. It returns ErrForeignFingerprint for a version whose secret it does not have.
func (f *Fingerprints) Same(stored Fingerprint, r Request) (bool, error) {
	return f.same(stored, canonicalRequest(r))
}

// OfCard returns the fingerprint of a card's number and expiry.
func (f *Fingerprints) OfCard(c Card) Fingerprint { return f.of(canonicalCard(c)) }

// SameCard does what Same does, for a fingerprint made by OfCard.
func (f *Fingerprints) SameCard(stored Fingerprint, c Card) (bool, error) {
	return f.same(stored, canonicalCard(c))
}

func canonicalCard(c Card) []byte {
	return fmt.Appendf(nil, "card %s %d %d", c.Number.Reveal(), c.ExpMonth, c.ExpYear)
}

func (f *Fingerprints) of(data []byte) Fingerprint {
	m := f.makers[0]
	return Fingerprint{Sum: digest(m.secret, data), Version: m.version}
}

func (f *Fingerprints) same(stored Fingerprint, data []byte) (bool, error) {
	for _, m := range f.makers {
		if m.version == stored.Version {
			return hmac.Equal(digest(m.secret, data), stored.Sum), nil
		}
	}
	return false, ErrForeignFingerprint
}

// ProcessorKey returns the key under which the processor charges once: SHA-256(key,
// 0x00, n) in hexadecimal, n being the number of payments stored under the key, in decimal.
func ProcessorKey(key Key, n int) string {
	sum := sha256.Sum256([]byte(string(key) + "\x00" + strconv.Itoa(n)))
	return hex.EncodeToString(sum[:])
}
