package auth

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
)

// policyFile holds the policy that is in force. A file that becomes bad leaves the one before in force.
type policyFile struct {
	path    string
	service string
	metrics *Metrics
	log     *slog.Logger

	inForce atomic.Pointer[rights]
	seen    []byte // what the file held when it was last looked at
	bad     string // what was wrong with it, empty for nothing
}

// open reads the file for the first time.
func (p *policyFile) open() error {
	if err := p.read(); err != nil {
		return fmt.Errorf("AUTH_POLICY: %w", err)
	}
	return nil
}

// read reads the file, and puts its policy in force unless it was read before or is bad.
func (p *policyFile) read() error {
	source, err := os.ReadFile(p.path)
	if err != nil {
		return fmt.Errorf("the policy cannot be read: %w", err)
	}
	if p.bad == "" && p.inForce.Load() != nil && bytes.Equal(source, p.seen) {
		return nil
	}
	parsed, err := parsePolicy(source, p.service)
	if err != nil {
		return fmt.Errorf("the policy %s is bad: %w", p.path, err)
	}
	p.seen = source
	p.inForce.Store(parsed)
	return nil
}

// reload looks at the file again. It logs a change, and what is wrong once.
func (p *policyFile) reload(ctx context.Context) {
	before := p.inForce.Load()
	err := p.read()
	switch {
	case err != nil:
		p.metrics.policy.Inc()
		if p.bad != err.Error() {
			p.log.ErrorContext(ctx, "the policy in AUTH_POLICY is bad, the one before stays in force", slog.Any("error", err))
		}
		p.bad = err.Error()
	case p.inForce.Load() != before:
		p.bad = ""
		p.describe(ctx)
	}
}

// describe logs that a policy is in force.
func (p *policyFile) describe(ctx context.Context) {
	if p.inForce.Load().none() {
		p.log.WarnContext(ctx, "the policy in AUTH_POLICY has no rule for this service, all requests are refused")
		return
	}
	p.log.InfoContext(ctx, "a policy is in force", slog.String("file", p.path))
}
