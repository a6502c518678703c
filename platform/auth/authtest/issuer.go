// Package authtest runs a token issuer for tests, with generated keys.
package authtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/go-jose/go-jose/v4"
)

// Issuer serves an issuer's endpoints over TLS until the test ends. Its methods are safe for concurrent use.
type Issuer struct {
	// URL is the issuer's URL.
	URL string
	// CAFile holds the certificate to trust for URL.
	CAFile string

	server *httptest.Server

	mu      sync.Mutex
	key     jose.JSONWebKey   // signs
	former  []jose.JSONWebKey // published, but sign nothing
	answer  func(w http.ResponseWriter, r *http.Request) bool
	fetches int
}

// New runs an issuer.
func New(t testing.TB) *Issuer {
	t.Helper()
	i := &Issuer{key: newKey(t)}
	i.server = httptest.NewUnstartedServer(http.HandlerFunc(i.serve))
	i.server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // tests refuse its certificate
	i.server.StartTLS()
	t.Cleanup(i.server.Close)
	i.URL = i.server.URL
	i.CAFile = write(t, "ca.crt",
		string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.server.Certificate().Raw})))
	return i
}

// Environ returns the environment of a replica that accepts the issuer's tokens for the audience rowlock and applies
// the given policy (YAML).
func (i *Issuer) Environ(t testing.TB, policy string) map[string]string {
	t.Helper()
	return map[string]string{
		"AUTH": "token", "AUTH_ISSUER": i.URL, "AUTH_CA_FILE": i.CAFile, "AUTH_POLICY": write(t, "policy.yaml", policy),
	}
}

// Rotate generates a new signing key. The former keys stay published.
func (i *Issuer) Rotate(t testing.TB) {
	t.Helper()
	i.Use(newKey(t))
}

// Use replaces the signing key. The former keys stay published.
func (i *Issuer) Use(key jose.JSONWebKey) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.former = append(i.former, i.key)
	i.key = key
}

// Withdraw stops publishing the former keys.
func (i *Issuer) Withdraw() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.former = nil
}

// Answer passes each request to answer first, which returns true if it has handled it. Nil removes it.
func (i *Issuer) Answer(answer func(w http.ResponseWriter, r *http.Request) bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.answer = answer
}

// Fetches returns how often the keys were fetched.
func (i *Issuer) Fetches() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.fetches
}

// serve implements OpenID Connect Discovery 1.0.
func (i *Issuer) serve(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	answer := i.answer
	i.mu.Unlock()
	if answer != nil && answer(w, r) {
		return
	}

	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		_, _ = fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, i.URL, i.URL+"/keys") // fails if the client is gone
	case "/keys":
		i.mu.Lock()
		i.fetches++
		set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{i.key.Public()}}
		for _, former := range i.former {
			set.Keys = append(set.Keys, former.Public())
		}
		i.mu.Unlock()

		_ = json.NewEncoder(w).Encode(set)
	default:
		http.NotFound(w, r)
	}
}

func newKey(t testing.TB) jose.JSONWebKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return jose.JSONWebKey{Key: key, KeyID: rand.Text(), Algorithm: string(jose.ES256), Use: "sig"}
}

func write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
