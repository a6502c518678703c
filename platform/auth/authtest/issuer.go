// Package authtest runs an issuer of tokens for tests, with keys of its own.
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

// Issuer is an issuer that listens by TLS until the test ends. Its methods are for concurrent use.
type Issuer struct {
	// URL is the issuer's.
	URL string
	// CAFile holds the certificate that its own is signed by.
	CAFile string

	server *httptest.Server

	mu      sync.Mutex
	key     jose.JSONWebKey   // signs
	former  []jose.JSONWebKey // is published beside it
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

// Environ returns the variables of a replica that takes the issuer's tokens for the audience rowlock, by a policy in
// YAML.
func (i *Issuer) Environ(t testing.TB, policy string) map[string]string {
	t.Helper()
	return map[string]string{
		"AUTH": "token", "AUTH_ISSUER": i.URL, "AUTH_CA_FILE": i.CAFile, "AUTH_POLICY": write(t, "policy.yaml", policy),
	}
}

// Rotate replaces the key that signs by a new one. The former keys stay published.
func (i *Issuer) Rotate(t testing.TB) {
	t.Helper()
	i.Use(newKey(t))
}

// Use replaces the key that signs. The former keys stay published.
func (i *Issuer) Use(key jose.JSONWebKey) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.former = append(i.former, i.key)
	i.key = key
}

// Withdraw no longer publishes the former keys.
func (i *Issuer) Withdraw() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.former = nil
}

// Answer makes answer handle all requests that it returns true for; nil for none.
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

// serve answers as an issuer does (OpenID Connect Discovery 1.0).
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
		_, _ = fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, i.URL, i.URL+"/keys") // the error is the connection's
	case "/keys":
		i.mu.Lock()
		defer i.mu.Unlock()
		i.fetches++
		set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{i.key.Public()}}
		for _, former := range i.former {
			set.Keys = append(set.Keys, former.Public())
		}
		_ = json.NewEncoder(w).Encode(set) //nolint:errchkjson // as above
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
