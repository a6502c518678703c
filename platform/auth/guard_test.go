package auth_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/platform/auth"
	"github.com/rowlock/rowlock/platform/auth/authtest"
	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
)

const (
	checkout = "system:serviceaccount:shop:checkout"
	// policy allows checkout to read.
	policy = `rules: [{subjects: ["` + checkout + `"], services: [counts], allow: [read]}]`
)

// guarded is a Guard with its metrics.
type guarded struct {
	*auth.Guard

	registry *prometheus.Registry
}

// newGuard returns a Guard of the service counts that has asked the issuer for its keys.
func newGuard(t testing.TB, i *authtest.Issuer, policy string) *guarded {
	t.Helper()
	env := i.Environ(t, policy)
	g := &guarded{registry: prometheus.NewRegistry()}
	m := auth.NewMetrics(g.registry)
	var err error
	g.Guard, err = auth.New("counts", config.Auth{
		Issuer: i.URL, Audience: "rowlock", CAFile: i.CAFile, Policy: env["AUTH_POLICY"],
	}, m, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return g
}

// refused returns how many requests the metric says were refused for a reason.
func (g *guarded) refused(t *testing.T, reason string) float64 {
	t.Helper()
	return apptest.Gathered(t, g.registry, `rowlock_auth_refused_total{reason="`+reason+`"}`)
}

func bearer(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }

// wantRefused compares an error with a problem.
func wantRefused(t *testing.T, what string, err error, kind problem.Kind, challenge string) {
	t.Helper()
	p, _ := errors.AsType[*problem.Error](err)
	if p == nil {
		t.Errorf("%s: %v, want %s", what, err, kind.Code())
		return
	}
	header := make(http.Header)
	p.SetHeaders(header)
	if got := header.Get("WWW-Authenticate"); p.Kind() != kind || !strings.HasPrefix(got, challenge) {
		t.Errorf("%s: %v with WWW-Authenticate %q, want %s with %q", what, p, got, kind.Code(), challenge)
	}
}

func TestGoodTokens(t *testing.T) {
	t.Parallel()
	i := authtest.New(t)
	g := newGuard(t, i, policy)
	const almost = 50 * time.Second // of the minute that clocks may be apart
	for name, header := range map[string]http.Header{
		"plain":             bearer(i.Token(checkout)),
		"lower-case scheme": {"Authorization": {"bearer  " + i.Token(checkout)}},
		"one of audiences":  bearer(i.Token(checkout, authtest.Claim("aud", []string{"api", "rowlock"}))),
		"just expired":      bearer(i.Token(checkout, authtest.In("exp", -almost))),
		"almost valid":      bearer(i.Token(checkout, authtest.In("nbf", almost))),
		"almost issued":     bearer(i.Token(checkout, authtest.In("iat", almost))),
		"no times but exp":  bearer(i.Token(checkout, authtest.Without("nbf"), authtest.Without("iat"))),
		"other claims":      bearer(i.Token(checkout, authtest.Claim("kubernetes.io", map[string]any{"namespace": "shop"}))),
	} {
		for _, time := range []string{"first", "again"} {
			if got, err := g.Authenticate(t.Context(), header); got != checkout || err != nil {
				t.Errorf("%s, %s: %q, %v", name, time, got, err)
			}
		}
	}
}

func TestBadTokens(t *testing.T) {
	t.Parallel()
	i := authtest.New(t)
	g := newGuard(t, i, policy)
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	good := i.Token(checkout)
	signed := good[:strings.LastIndexByte(good, '.')]
	header := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`))
	unsigned := header + signed[strings.IndexByte(signed, '.'):] + "."
	large := map[string]string{ // go-jose before 4.1.9 accepted it
		"kty": "RSA", "e": "AQAB", "n": base64.RawURLEncoding.EncodeToString(bytes.Repeat([]byte{255}, 8192/8)),
	}
	const late = 70 * time.Second
	for name, tt := range map[string]struct {
		header http.Header
		reason string
	}{
		"none":               {nil, "missing"},
		"another scheme":     {http.Header{"Authorization": {"Basic dTpw"}}, "missing"},
		"the scheme alone":   {http.Header{"Authorization": {"Bearer"}}, "malformed"},
		"no JWT":             {bearer("secret"), "malformed"},
		"not encoded":        {bearer("a.b.c"), "malformed"},
		"JSON":               {bearer(`{"payload":"","protected":"","signature":""}`), "malformed"},
		"two in one header":  {bearer(good + ", Bearer " + good), "malformed"},
		"two headers":        {http.Header{"Authorization": {"Bearer " + good, "Bearer " + good}}, "malformed"},
		"unsigned":           {bearer(unsigned), "malformed"},
		"signature cut off":  {bearer(signed + "."), "signature"},
		"a shared secret":    {bearer(i.Token(checkout, authtest.SignedBy(jose.HS256, make([]byte, 32)))), "malformed"},
		"64 KiB":             {bearer(i.Token(checkout, authtest.Claim("x", strings.Repeat("x", 64<<10)))), "malformed"},
		"a large key in it":  {bearer(i.Token(checkout, authtest.Header("jwk", large))), "malformed"},
		"no expiry":          {bearer(i.Token(checkout, authtest.Without("exp"))), "malformed"},
		"no subject":         {bearer(i.Token("")), "malformed"},
		"a long subject":     {bearer(i.Token(strings.Repeat("s", 513))), "malformed"},
		"a control in it":    {bearer(i.Token("a\nb")), "malformed"},
		"another key":        {bearer(i.Token(checkout, authtest.SignedBy(jose.ES256, other))), "signature"},
		"an unknown key":     {bearer(i.Token(checkout, authtest.KeyID("other"))), "signature"},
		"another issuer":     {bearer(i.Token(checkout, authtest.Claim("iss", "https://other"))), "issuer"},
		"another audience":   {bearer(i.Token(checkout, authtest.Claim("aud", "api"))), "audience"},
		"no audience":        {bearer(i.Token(checkout, authtest.Without("aud"))), "audience"},
		"expired":            {bearer(i.Token(checkout, authtest.In("exp", -late))), "expired"},
		"not valid yet":      {bearer(i.Token(checkout, authtest.In("nbf", late))), "early"},
		"issued in a while":  {bearer(i.Token(checkout, authtest.In("iat", late))), "early"},
		"another's, changed": {bearer(signed + "x" + good[len(signed):]), "signature"},
	} {
		g.Expire() // an unknown key is fetched at once
		before := g.refused(t, tt.reason)
		subject, err := g.Authenticate(t.Context(), tt.header)
		challenge := `Bearer error="invalid_token", error_description="The token`
		if tt.reason == "missing" {
			challenge = "Bearer"
		}
		wantRefused(t, name, err, problem.Unauthenticated, challenge)
		if after := g.refused(t, tt.reason); subject != "" || after != before+1 {
			t.Errorf("%s: subject %q, and %g refused as %s, want %g", name, subject, after, tt.reason, before+1)
		}
	}
	if got := i.Fetches(); got != 2 {
		t.Errorf("the keys were fetched %d times, want one for the unknown key", got)
	}
}

// Kubernetes signs by RS256 or ES256; other issuers have other algorithms.
func TestAlgorithms(t *testing.T) {
	t.Parallel()
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for _, algorithm := range []jose.SignatureAlgorithm{jose.RS256, jose.RS512, jose.PS256} {
		i := authtest.New(t)
		i.Use(jose.JSONWebKey{Key: rsaKey, KeyID: "k", Algorithm: string(algorithm)})
		if got, err := newGuard(t, i, policy).Authenticate(t.Context(), bearer(i.Token(checkout))); got != checkout {
			t.Errorf("%s: %q, %v", algorithm, got, err)
		}
	}
}

// A token is remembered no longer than it is valid.
func TestRememberedTokenExpires(t *testing.T) {
	t.Parallel()
	i := authtest.New(t)
	g := newGuard(t, i, policy)
	synctest.Test(t, func(t *testing.T) {
		header := bearer(i.Token(checkout, authtest.In("exp", time.Hour)))
		time.Sleep(time.Hour)
		if _, err := g.Authenticate(t.Context(), header); err != nil {
			t.Errorf("within the minute that clocks may be apart: %v", err)
		}
		time.Sleep(2 * time.Minute)
		_, err := g.Authenticate(t.Context(), header)
		wantRefused(t, "afterwards", err, problem.Unauthenticated, "Bearer error")
	})
}

// A token is remembered no longer than its key is published.
func TestWithdrawnKey(t *testing.T) {
	t.Parallel()
	i := authtest.New(t)
	g := newGuard(t, i, policy)
	former := bearer(i.Token(checkout))
	if _, err := g.Authenticate(t.Context(), former); err != nil {
		t.Fatal(err)
	}
	i.Rotate(t)
	i.Withdraw()
	g.Expire()
	g.Refresh(t.Context())
	if _, err := g.Authenticate(t.Context(), bearer(i.Token(checkout))); err != nil {
		t.Errorf("by the new key: %v", err)
	}
	g.Expire()
	_, err := g.Authenticate(t.Context(), former)
	wantRefused(t, "by the former key", err, problem.Unauthenticated, "Bearer error")
}

// While the issuer is away nothing can be verified by new keys, and everything by those that are known.
func TestIssuerIsAway(t *testing.T) {
	t.Parallel()
	i := authtest.New(t)
	away := func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusInternalServerError)
		return true
	}
	i.Answer(away)
	g := newGuard(t, i, policy)
	_, err := g.Authenticate(t.Context(), bearer(i.Token(checkout)))
	wantRefused(t, "away at the start", err, problem.NotApplied, "")
	if p, _ := errors.AsType[*problem.Error](err); p == nil || p.RetryAfter() <= 0 {
		t.Errorf("%v has no time of the next try", err)
	}
	i.Answer(nil)
	g.Expire()
	g.Refresh(t.Context())
	known := i.Token(checkout)
	i.Answer(away)
	g.Expire()
	g.Refresh(t.Context())
	if _, err := g.Authenticate(t.Context(), bearer(known)); err != nil {
		t.Errorf("away later: %v", err)
	}
	_, err = g.Authenticate(t.Context(), bearer(i.Token(checkout, authtest.KeyID("new"))))
	wantRefused(t, "a new key while it is away", err, problem.NotApplied, "")
	if got := g.refused(t, "keys"); got != 2 {
		t.Errorf("%g requests were refused for want of keys, want 2", got)
	}
	if got := apptest.Gathered(t, g.registry, "rowlock_auth_issuer_errors_total"); got != 2 {
		t.Errorf("%g attempts to get the keys failed, want 2", got)
	}
}

// A change of the policy holds from the next look on; a bad one changes nothing.
func TestPolicyIsReloaded(t *testing.T) {
	t.Parallel()
	i := authtest.New(t)
	path := i.Environ(t, policy)["AUTH_POLICY"]
	registry, log := prometheus.NewRegistry(), new(strings.Builder)
	m := auth.NewMetrics(registry)
	g, err := auth.New("counts", config.Auth{Issuer: i.URL, CAFile: i.CAFile, Policy: path}, m,
		slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		text               string
		mayRead, mayChange bool
	}{
		{policy, true, false},
		{strings.Replace(policy, "read", "change", 1), false, true},
		{"rules: [", false, true},
		{"rules: [", false, true},
		{"", false, true},
		{"rules: []", false, false},
		{"rules: [", false, false},
		{"rules: []", false, false},
		{policy, true, false},
	} {
		if err := os.WriteFile(path, []byte(step.text), 0o600); err != nil {
			t.Fatal(err)
		}
		g.Refresh(t.Context())
		mayRead, mayChange := g.Authorize(checkout, auth.Read) == nil, g.Authorize(checkout, auth.Change) == nil
		if mayRead != step.mayRead || mayChange != step.mayChange {
			t.Errorf("%q: read %t, change %t", step.text, mayRead, mayChange)
		}
	}
	for line, want := range map[string]int{ // one for each policy, not for each look
		"the previous one stays in force": 3, "a policy is in force": 2, "has no rule for this service": 2,
	} {
		if got := strings.Count(log.String(), line); got != want {
			t.Errorf("%d lines say %q, want %d:\n%s", got, line, want, log)
		}
	}
	if got := apptest.Gathered(t, registry, "rowlock_auth_policy_errors_total"); got != 4 {
		t.Errorf("%g looks found a bad policy, want 4", got)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	g.Refresh(t.Context())
	if g.Authorize(checkout, auth.Read) != nil {
		t.Error("a policy that is gone does not stay in force")
	}
	err = g.Authorize(checkout, auth.Administer)
	wantRefused(t, "no rule", err, problem.Forbidden, `Bearer error="insufficient_scope"`)
}

func TestBadPolicyRefusesTheStart(t *testing.T) {
	t.Parallel()
	m := auth.NewMetrics(prometheus.NewRegistry())
	i := authtest.New(t)
	for _, path := range []string{"/no/such/file", i.Environ(t, "rules: {}")["AUTH_POLICY"]} {
		_, err := auth.New("counts", config.Auth{Issuer: i.URL, Policy: path}, m, slog.New(slog.DiscardHandler))
		if err == nil || !strings.HasPrefix(err.Error(), "AUTH_POLICY: ") {
			t.Errorf("%s: %v", path, err)
		}
	}
}
