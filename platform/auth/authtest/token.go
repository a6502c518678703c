package authtest

import (
	"fmt"
	"maps"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// draft is a token before signing.
type draft struct {
	claims map[string]any
	header map[jose.HeaderKey]any
	keyID  string
	key    jose.SigningKey
}

// Option changes a token that would be valid.
type Option func(*draft)

// In sets a time, such as exp, which is in an hour by default. A negative duration sets a time in the past.
func In(claim string, after time.Duration) Option {
	return func(d *draft) { d.claims[claim] = time.Now().Add(after).Unix() }
}

// Without removes a claim, such as exp.
func Without(claim string) Option { return func(d *draft) { delete(d.claims, claim) } }

// Claim sets a claim.
func Claim(name string, value any) Option { return func(d *draft) { d.claims[name] = value } }

// Header adds a member to the token's header.
func Header(name string, value any) Option {
	return func(d *draft) { d.header[jose.HeaderKey(name)] = value }
}

// KeyID replaces the key ID; the token is still signed by the issuer's key.
func KeyID(id string) Option { return func(d *draft) { d.keyID = id } }

// SignedBy signs with another key.
func SignedBy(algorithm jose.SignatureAlgorithm, key any) Option {
	return func(d *draft) { d.key = jose.SigningKey{Algorithm: algorithm, Key: key} }
}

// Token returns a token for the subject. Without options it is signed by the current key, for the audience rowlock, and
// valid for an hour. It panics if the token cannot be signed.
func (i *Issuer) Token(subject string, options ...Option) string {
	i.mu.Lock()
	key := i.key
	i.mu.Unlock()

	now := time.Now()
	d := &draft{
		claims: map[string]any{
			"iss": i.URL, "sub": subject, "aud": []string{"rowlock"},
			"exp": now.Add(time.Hour).Unix(), "nbf": now.Unix(), "iat": now.Unix(),
		},
		header: make(map[jose.HeaderKey]any),
		keyID:  key.KeyID,
		key:    jose.SigningKey{Algorithm: jose.SignatureAlgorithm(key.Algorithm), Key: key.Key},
	}
	for _, option := range options {
		option(d)
	}

	signing := &jose.SignerOptions{ExtraHeaders: d.header}
	signer, err := jose.NewSigner(d.key, signing.WithHeader("kid", d.keyID).WithType("JWT"))
	if err != nil {
		panic(fmt.Errorf("authtest: %w", err))
	}

	token, err := jwt.Signed(signer).Claims(d.claims).Serialize()
	if err != nil {
		panic(fmt.Errorf("authtest: %w", err))
	}
	return token
}

// Header returns a request's header with a token for the subject, and the other headers.
func (i *Issuer) Header(subject string, others ...map[string]string) map[string]string {
	header := map[string]string{"Authorization": "Bearer " + i.Token(subject)}
	for _, other := range others {
		maps.Copy(header, other)
	}
	return header
}
