package auth_test

import (
	"crypto/rand"
	"crypto/rsa"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/rowlock/rowlock/platform/auth"
	"github.com/rowlock/rowlock/platform/auth/authtest"
)

// BenchmarkAuthenticate measures a token as Kubernetes signs it: one that is known, and one that is not.
func BenchmarkAuthenticate(b *testing.B) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		b.Fatal(err)
	}
	i := authtest.New(b)
	i.Use(jose.JSONWebKey{Key: key, KeyID: "k", Algorithm: string(jose.RS256)})
	g := newGuard(b, i, policy)
	header := bearer(i.Token(checkout, authtest.Claim("kubernetes.io", map[string]any{
		"namespace": "shop", "node": map[string]any{"name": "node-1", "uid": "1d8c0f5a-5c1c-4b44-9a5e-5a7f3f2b1c0d"},
		"pod":            map[string]any{"name": "checkout-7d9c5b7c6b-x2x7z", "uid": "6a1b1e5a-9f0c-4d6c-8e57-2e8f4b3c2a1d"},
		"serviceaccount": map[string]any{"name": "checkout", "uid": "0c6e2b8f-7a43-4c1e-b6a5-9d8e7f6a5b4c"},
	})))
	once := func(b *testing.B) {
		b.Helper()
		subject, err := g.Authenticate(b.Context(), header)
		if err != nil || g.Authorize(subject, auth.Read) != nil {
			b.Fatal(err)
		}
	}
	b.Run("known", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				once(b)
			}
		})
	})
	b.Run("new", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			g.Forget()
			once(b)
		}
	})
}
