package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	lru "github.com/hashicorp/golang-lru/v2"
)

const (
	// maxToken is the longest token in bytes. A service account's token has about 1,000.
	maxToken = 16 << 10
	// maxSubject is the longest subject in bytes. A service account's subject has at most 340.
	maxSubject = 512
	// skew is the tolerated difference between the issuer's clock and ours.
	skew = time.Minute
	// remembered bounds the cached verified tokens of a replica, of 100 bytes and the subject each.
	remembered = 8192
)

// bearer returns the token of a request.
func bearer(header http.Header) (token string, why reason) {
	values := header["Authorization"]
	if len(values) == 0 {
		return "", reasonMissing
	}

	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.TrimLeft(token, " ")
	switch {
	case len(values) > 1:
		return "", reasonMalformed
	case !strings.EqualFold(scheme, "Bearer"):
		return "", reasonMissing
	case token == "" || len(token) > maxToken:
		return "", reasonMalformed
	}
	return token, ""
}

// verifier verifies tokens.
type verifier struct {
	expected jwt.Expected
	keys     *keySet
	verified *lru.Cache[[sha256.Size]byte, verified] // by the token's digest
}

// verified is the part of a token that is cached.
type verified struct {
	subject    string
	until      time.Time
	generation int64 // of the keys that verified it
}

// algorithms returns the accepted algorithms, all asymmetric: no secret is shared with the issuer.
func algorithms() []jose.SignatureAlgorithm {
	return []jose.SignatureAlgorithm{
		jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512,
		jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
	}
}

// subject returns the subject of a token, or why it refuses the token. A verified token is cached until it expires or
// the keys change.
func (v *verifier) subject(ctx context.Context, token string) (subject string, why reason) {
	digest, generation := sha256.Sum256([]byte(token)), v.keys.generation.Load()
	known, ok := v.verified.Get(digest)
	if ok && known.generation == generation && time.Now().Before(known.until) {
		return known.subject, ""
	}

	claims, why := v.verify(ctx, token)
	if why == "" {
		v.verified.Add(digest, verified{claims.Subject, claims.Expiry.Time().Add(skew), generation})
	}
	return claims.Subject, why
}

// verify checks the signature and the claims of a token.
func (v *verifier) verify(ctx context.Context, token string) (claims jwt.Claims, why reason) {
	parsed, err := jwt.ParseSigned(token, algorithms())
	if err != nil {
		return claims, reasonMalformed
	}

	key, why := v.keys.find(ctx, parsed.Headers[0].KeyID)
	if why != "" {
		return claims, why
	}

	switch err := parsed.Claims(key, &claims); {
	case errors.Is(err, jose.ErrCryptoFailure):
		return claims, reasonSignature
	case err != nil || claims.Expiry == nil || !validSubject(claims.Subject):
		return claims, reasonMalformed
	}

	switch err := claims.ValidateWithLeeway(v.expected, skew); {
	case err == nil:
		return claims, ""
	case errors.Is(err, jwt.ErrInvalidIssuer):
		return claims, reasonIssuer
	case errors.Is(err, jwt.ErrInvalidAudience):
		return claims, reasonAudience
	case errors.Is(err, jwt.ErrExpired):
		return claims, reasonExpired
	}
	return claims, reasonEarly // not before, or issued at
}

// validSubject reports whether a subject can be used in a policy, a log and a database.
func validSubject(subject string) bool {
	return subject != "" && len(subject) <= maxSubject && utf8.ValidString(subject) &&
		!strings.ContainsFunc(subject, unicode.IsControl)
}
