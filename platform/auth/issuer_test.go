package auth_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/platform/auth"
	"github.com/rowlock/rowlock/platform/auth/authtest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// logBuffer is a log that an attempt may still write to while the test reads it.
type logBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()

	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()

	return b.text.String()
}

// keysOf returns what a Guard logs that asks for the issuer's keys, once it has them or has said why not.
func keysOf(t *testing.T, s auth.Settings) string {
	t.Helper()
	m, err := auth.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}

	log := new(logBuffer)
	s.Service = "counts"

	g, err := auth.New(s, m, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}

	if err := g.Start(t.Context()); err != nil {
		t.Fatal(err)
	}

	// On a slow machine Start gives up before the issuer has answered.
	waittest.Eventually(t, "the attempt has ended", func() bool {
		return g.HasKeys() || strings.Contains(log.String(), "cannot be read")
	})

	return log.String()
}

// TestKeysAreRefused: keys come by TLS alone, from the issuer itself, and are public ones.
func TestKeysAreRefused(t *testing.T) {
	t.Parallel()
	i := authtest.New(t)
	good := auth.Settings{Issuer: i.URL, CAFile: i.CAFile, Policy: i.Environ(t, "rules: []")["AUTH_POLICY"]}
	// To verify by a key of many bits costs much, and go-jose before 4.1.9 took any.
	modulus := base64.RawURLEncoding.EncodeToString(bytes.Repeat([]byte{255}, 8192/8))
	configuration := fmt.Sprintf(`"issuer":%q,"jwks_uri":%q`, i.URL, i.URL)
	for want, tt := range map[string]struct {
		change func(s *auth.Settings)
		status int
		answer string
	}{
		"unknown authority":        {change: func(s *auth.Settings) { s.CAFile = "" }},
		"AUTH_CA_FILE: open /none": {change: func(s *auth.Settings) { s.CAFile = "/none" }},
		"holds no certificate":     {change: func(s *auth.Settings) { s.CAFile = s.Policy }},
		"AUTH_TOKEN_FILE: open":    {change: func(s *auth.Settings) { s.TokenFile = "/none" }},
		"keys must come over https": {change: func(s *auth.Settings) {
			s.Issuer = strings.Replace(s.Issuer, "https", "http", 1)
		}},
		"did not match the issuer": {status: 200, answer: `{"issuer":"https://other"}`},
		"failed to decode":         {status: 200, answer: `{`},
		"the issuer's keys: ":      {status: 200, answer: `{"issuer":"` + i.URL + `"}`},
		"answered 403 Forbidden":   {status: 403},
		"answered 302 Found":       {status: 302},
		"publishes no public key": {
			status: 200, answer: `{` + configuration + `,"keys":[{"kty":"oct","kid":"a","k":"YQ"},{"kty":"?"},{},
				{"kty":"RSA","kid":"b","e":"AQAB","n":"` + modulus + `"}]}`,
		},
		"unexpected end of JSON": {status: 200, answer: `{` + configuration + strings.Repeat(" ", 1<<20) + `}`},
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
		if got := keysOf(t, s); !strings.Contains(got, "cannot be read") || !strings.Contains(got, want) {
			t.Errorf("want %q: %s", want, got)
		}
	}
	i.Answer(nil)
	if got := keysOf(t, good); strings.Contains(got, "cannot be read") {
		t.Error(got)
	}
}

// TestTokenForTheIssuer: both requests carry the token of the file, as it is at that time.
func TestTokenForTheIssuer(t *testing.T) {
	t.Parallel()
	i := authtest.New(t)
	s := auth.Settings{
		Issuer: i.URL, CAFile: i.CAFile, Policy: i.Environ(t, "rules: []")["AUTH_POLICY"],
		TokenFile: filepath.Join(t.TempDir(), "token"),
	}
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
		if got := keysOf(t, s); strings.Contains(got, "cannot be read") {
			t.Errorf("%s: %s", token, got)
		}
	}
}
