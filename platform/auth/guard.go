package auth

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/rowlock/rowlock/platform/config"
)

const (
	// RefreshEvery is the recommended interval between calls of Refresh.
	RefreshEvery = 5 * time.Second
	// startTimeout bounds a start's wait for the issuer's keys.
	startTimeout = 3 * time.Second
)

// Guard identifies callers and checks their rights. Its methods are safe for concurrent use, except Refresh.
type Guard struct {
	policy  policyFile
	keys    *keySet
	tokens  *verifier
	metrics *Metrics
}

// New reads the policy and returns a Guard for the service with that name. It opens no connections. It fails if the
// policy cannot be read.
func New(service string, cfg config.Auth, m *Metrics, log *slog.Logger) (*Guard, error) {
	tokens, _ := lru.New[[32]byte, verified](remembered) // fails only for sizes below 1
	g := &Guard{
		policy:  policyFile{path: cfg.Policy, service: service, metrics: m, log: log},
		keys:    &keySet{fetch: issuer(cfg).fetch, metrics: m, log: log},
		metrics: m,
	}
	g.tokens = &verifier{
		expected: jwt.Expected{Issuer: cfg.Issuer, AnyAudience: jwt.Audience{cfg.Audience}}, keys: g.keys, verified: tokens,
	}

	if err := g.policy.open(); err != nil {
		return nil, err
	}
	return g, nil
}

// Start asks the issuer for its keys and waits up to 3 s for them. It never fails: if the issuer is unavailable,
// Refresh tries again. Until the keys are known, HasKeys returns false and requests are answered 503.
func (g *Guard) Start(ctx context.Context) error {
	g.policy.describe(ctx)
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	g.keys.renew(ctx)
	return nil
}

// HasKeys reports whether the issuer's keys were ever fetched. It stays true if the issuer becomes unavailable.
func (g *Guard) HasKeys() bool { return g.keys.fetchedOnce() }

// Refresh rereads the policy if its file has changed, and fetches the issuer's keys if they are five minutes old or the
// last attempt failed.
func (g *Guard) Refresh(ctx context.Context) {
	g.policy.reload(ctx)
	g.keys.renew(ctx)
}

// Authenticate returns the subject of the token in a request's header. Its error is a *problem.Error: 401
// UNAUTHENTICATED, or 503 NOT_APPLIED if the token's key is unknown and the issuer is unavailable or was asked just
// before.
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

// Authorize returns an error unless the policy grants the right to the subject: a *problem.Error, 403 FORBIDDEN.
func (g *Guard) Authorize(subject string, right Right) error {
	if !g.policy.inForce.Load().allow(subject, right) {
		return g.refuse(reasonPolicy)
	}
	return nil
}

// refuse counts a refusal and returns its error.
func (g *Guard) refuse(why reason) error {
	g.metrics.refused.WithLabelValues(string(why)).Inc()
	return why.problem()
}
