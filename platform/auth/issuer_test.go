package auth

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/platform/auth/authtest"
)

// TestKeysAreRefused: keys come by TLS alone, from the issuer itself, and are public ones.
func TestKeysAreRefused(t *testing.T) {
	t.Parallel()
	i := authtest.New(t)
	good := issuer{Issuer: i.URL, CAFile: i.CAFile}
	noCertificate := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(noCertificate, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	// To verify by a key of many bits costs much, and go-jose before 4.1.9 took any.
	modulus := base64.RawURLEncoding.EncodeToString(bytes.Repeat([]byte{255}, 8192/8))
	configuration := fmt.Sprintf(`"issuer":%q,"jwks_uri":%q`, i.URL, i.URL)
	for want, tt := range map[string]struct {
		change func(s *issuer)
		status int
		answer string
	}{
		"unknown authority":        {change: func(s *issuer) { s.CAFile = "" }},
		"AUTH_CA_FILE: open /none": {change: func(s *issuer) { s.CAFile = "/none" }},
		"holds no certificate":     {change: func(s *issuer) { s.CAFile = noCertificate }},
		"AUTH_TOKEN_FILE: open":    {change: func(s *issuer) { s.TokenFile = "/none" }},
		"keys must come over https": {change: func(s *issuer) {
			s.Issuer = strings.Replace(s.Issuer, "https", "http", 1)
		}},
		"did not match the issuer":          {status: 200, answer: `{"issuer":"https://other"}`},
		"issuer's configuration: not JSON:": {status: 200, answer: `{`},
		"the issuer's keys: ":               {status: 200, answer: `{"issuer":"` + i.URL + `"}`},
		"answered 403 Forbidden":            {status: 403},
		"answered 302 Found":                {status: 302},
		"publishes no public key": {
			status: 200, answer: `{` + configuration + `,"keys":[{"kty":"oct","kid":"a","k":"YQ"},{"kty":"?"},{},
				{"kty":"RSA","kid":"b","e":"AQAB","n":"` + modulus + `"}]}`,
		},
		"not JSON: unexpected EOF": {status: 200, answer: `{` + configuration + strings.Repeat(" ", 1<<20) + `}`},
	} {
		s := good
		if tt.change != nil {
			tt.change(&s)
		}
		i.Answer(func(w http.ResponseWriter, _ *http.Request) bool {
			if tt.status == 0 {
				return false
			}
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Location", i.URL+"/keys")
			w.WriteHeader(tt.status)
			_, _ = w.Write([]byte(tt.answer))
			return true
		})
		if keys, err := s.fetch(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v, %v", want, keys, err)
		}
	}

	i.Answer(nil)
	if keys, err := good.fetch(t.Context()); err != nil || len(keys) != 1 {
		t.Errorf("%d keys, want 1: %v", len(keys), err)
	}
}

// TestTokenForTheIssuerAlone: a host that the issuer's configuration names gets no token, one that ours names does.
func TestTokenForTheIssuerAlone(t *testing.T) {
	t.Parallel()
	i, other := authtest.New(t), authtest.New(t)
	i.Answer(func(w http.ResponseWriter, _ *http.Request) bool {
		_, _ = fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, i.URL, other.URL+"/keys")
		return true
	})
	var token string
	other.Answer(func(_ http.ResponseWriter, r *http.Request) bool {
		token = r.Header.Get("Authorization")
		return false
	})
	s := issuer{Issuer: i.URL, CAFile: i.CAFile, TokenFile: filepath.Join(t.TempDir(), "token")}
	if err := os.WriteFile(s.TokenFile, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]string{"": "", other.URL + "/keys": "Bearer secret"} {
		s.KeysURL = url
		if _, err := s.fetch(t.Context()); err != nil || token != want {
			t.Errorf("AUTH_KEYS_URL=%s: the other host got %q, want %q; %v", url, token, want, err)
		}
	}
}

// TestTokenForTheIssuer: both requests carry the token of the file, as it is at that time.
func TestTokenForTheIssuer(t *testing.T) {
	t.Parallel()
	i := authtest.New(t)
	s := issuer{Issuer: i.URL, CAFile: i.CAFile, TokenFile: filepath.Join(t.TempDir(), "token")}
	for _, token := range []string{"first", "second"} {
		if err := os.WriteFile(s.TokenFile, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		i.Answer(func(w http.ResponseWriter, r *http.Request) bool {
			if r.Header.Get("Authorization") == "Bearer "+token {
				return false
			}
			w.WriteHeader(http.StatusUnauthorized)
			return true
		})
		if _, err := s.fetch(t.Context()); err != nil {
			t.Errorf("%s: %v", token, err)
		}
	}
}

func TestSameHost(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{
		"https://issuer": true, "https://ISSUER:443/a": true, "https://issuer:8443": false, "https://issuer.example": false,
		"https://other": false, ":": false, "": false,
	} {
		if got := sameHost(&url.URL{Scheme: "https", Host: "issuer"}, address); got != want {
			t.Errorf("%s: %t", address, got)
		}
	}
}
