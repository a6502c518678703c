package auth

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"
	lru "github.com/hashicorp/golang-lru/v2"
)

// Settings are what a Guard needs.
type Settings struct {
	// Service is the service's name in the policy.
	Service string
	// Issuer is the URL of the issuer, by https; its /.well-known/openid-configuration names the keys.
	Issuer string
	// Audience must be one of a token's audiences.
	Audience string
	// CAFile holds the certificates in PEM of those who sign the issuer's; empty stands for the system's.
	CAFile string
	// TokenFile holds the token that is sent to the issuer itself; empty stands for none.
	TokenFile string
	// Policy is the file of the policy.
	Policy string
}

const (
	// RefreshEvery is how often Refresh should be called.
	RefreshEvery = 5 * time.Second
	// startTimeout is how long a start waits for the issuer's keys.
	startTimeout = 3 * time.Second
)

// Guard tells who sends a request, and whether they may. Its methods are for concurrent use, except Refresh.
type Guard struct {
	policy  policyFile
	keys    *keySet
	tokens  *verifier
	metrics *Metrics
}

// New reads the policy and returns a Guard. It opens no connections; it fails on a policy that it cannot read.
func New(s Settings, m *Metrics, log *slog.Logger) (*Guard, error) {
	tokens, err := lru.New[[32]byte, verified](remembered)
	if err != nil {
		return nil, fmt.Errorf("auth: %w", err)
	}
	from := issuer{url: s.Issuer, caFile: s.CAFile, tokenFile: s.TokenFile}
	g := &Guard{
		policy:  policyFile{path: s.Policy, service: s.Service, metrics: m, log: log},
		keys:    &keySet{fetch: from.fetch, metrics: m, log: log},
		metrics: m,
	}
	g.tokens = &verifier{
		expected: jwt.Expected{Issuer: s.Issuer, AnyAudience: jwt.Audience{s.Audience}}, keys: g.keys, verified: tokens,
	}
	if err := g.policy.open(); err != nil {
		return nil, err
	}
	return g, nil
}

// Start asks the issuer for its keys, and waits for them for 3 s. It returns no error: an issuer that is away does not
// end the process, Refresh asks it again. Until the keys are known, HasKeys is false and requests are answered 503.
func (g *Guard) Start(ctx context.Context) error {
	g.policy.describe(ctx)
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	g.keys.renew(ctx)
	return nil
}

// HasKeys reports whether the issuer's keys were fetched at least once. It stays true when the issuer goes away.
func (g *Guard) HasKeys() bool { return g.keys.fetchedOnce() }

// Refresh reads the policy again when its file has changed, and the issuer's keys when they are five minutes old or the
// last attempt failed.
func (g *Guard) Refresh(ctx context.Context) {
	g.policy.reload(ctx)
	g.keys.renew(ctx)
}

// Authenticate returns the subject of the token in a request's header. Its error is a *problem.Error: 401
// UNAUTHENTICATED, or 503 NOT_APPLIED while the key of the token is not known and the issuer is away.
func (g *Guard) Authenticate(ctx context.Context, header http.Header) (subject string, err error) {
	token, why := bearer(header)
	if why == "" {
		subject, why = g.tokens.subject(ctx, token)
	}
	if why != "" {
		return "", g.refuse(why)
	}
	return subject, nil
}

// Authorize returns an error unless the policy gives the right to the subject: a *problem.Error, 403 FORBIDDEN.
func (g *Guard) Authorize(subject string, right Right) error {
	if !g.policy.inForce.Load().allow(subject, right) {
		return g.refuse(reasonPolicy)
	}
	return nil
}

// refuse returns the error of a refusal, and counts it.
func (g *Guard) refuse(why reason) error {
	g.metrics.refused.WithLabelValues(string(why)).Inc()
	return why.problem()
}
