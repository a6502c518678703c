package authtest

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"time"

	"github.com/go-jose/go-jose/v4"
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

// Audience replaces the audience rowlock.
func Audience(audiences ...string) Option {
	return func(d *draft) { d.claims["aud"] = audiences }
}

// IssuedBy replaces the issuer's URL.
func IssuedBy(url string) Option { return func(d *draft) { d.claims["iss"] = url } }

// ExpiresIn replaces the default lifetime of one hour; a negative duration yields an expired token.
func ExpiresIn(after time.Duration) Option {
	return func(d *draft) { d.claims["exp"] = time.Now().Add(after).Unix() }
}

// ValidIn postpones the time from which the token is valid.
func ValidIn(after time.Duration) Option {
	return func(d *draft) { d.claims["nbf"] = time.Now().Add(after).Unix() }
}

// IssuedIn postpones the token's issue time.
func IssuedIn(after time.Duration) Option {
	return func(d *draft) { d.claims["iat"] = time.Now().Add(after).Unix() }
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

	signed, err := signer.Sign(encode(d.claims))
	if err != nil {
		panic(fmt.Errorf("authtest: %w", err))
	}

	token, err := signed.CompactSerialize()
	if err != nil {
		panic(fmt.Errorf("authtest: %w", err))
	}
	return token
}

// Unsigned returns a token for the subject with alg none and no signature.
func (i *Issuer) Unsigned(subject string) string {
	now := time.Now()
	claims := map[string]any{"iss": i.URL, "sub": subject, "aud": "rowlock", "exp": now.Add(time.Hour).Unix()}
	header := map[string]any{"alg": "none"}
	return base64.RawURLEncoding.EncodeToString(encode(header)) + "." +
		base64.RawURLEncoding.EncodeToString(encode(claims)) + "."
}

// PublicKey returns the issuer's public key in PEM. An attacker would try it as an HMAC secret.
func (i *Issuer) PublicKey() []byte {
	i.mu.Lock()
	defer i.mu.Unlock()
	public := i.key.Public()
	der, err := x509.MarshalPKIXPublicKey(public.Key)
	if err != nil {
		panic(fmt.Errorf("authtest: %w", err))
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

// Header returns a request's header with a token for the subject, and the other headers.
func (i *Issuer) Header(subject string, others ...map[string]string) map[string]string {
	header := map[string]string{"Authorization": "Bearer " + i.Token(subject)}
	for _, other := range others {
		maps.Copy(header, other)
	}
	return header
}

func encode(value map[string]any) []byte {
	encoded, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Errorf("authtest: %w", err))
	}
	return encoded
}
