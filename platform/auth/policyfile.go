package auth

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"sync/atomic"
)

// policyFile holds the policy in force. If the file becomes invalid, the previous policy stays in force.
type policyFile struct {
	path    string
	service string
	metrics *Metrics
	log     *slog.Logger

	inForce atomic.Pointer[rights]
	bad     string // the last error; empty if there was none
}

// open reads the file for the first time. An error refuses the start.
func (p *policyFile) open() error {
	policy, err := p.read()
	if err != nil {
		return fmt.Errorf("AUTH_POLICY: %w", err)
	}
	p.inForce.Store(policy)
	return nil
}

func (p *policyFile) read() (*rights, error) {
	source, err := os.ReadFile(p.path)
	if err != nil {
		return nil, fmt.Errorf("the policy cannot be read: %w", err)
	}
	policy, err := parsePolicy(source, p.service)
	if err != nil {
		return nil, fmt.Errorf("the policy %s is bad: %w", p.path, err)
	}
	return policy, nil
}

// reload rereads the file, and puts its policy in force if that is valid. It logs a change, and each error once.
func (p *policyFile) reload(ctx context.Context) {
	policy, err := p.read()
	switch {
	case err != nil:
		p.metrics.policy.Inc()
		if p.bad != err.Error() {
			p.log.ErrorContext(ctx, "the policy in AUTH_POLICY is bad, the previous one stays in force", slog.Any("error", err))
		}
		p.bad = err.Error()
	case p.bad != "" || !reflect.DeepEqual(policy, p.inForce.Load()):
		p.bad = ""
		p.inForce.Store(policy)
		p.describe(ctx)
	}
}

// describe logs which policy is in force.
func (p *policyFile) describe(ctx context.Context) {
	if p.inForce.Load().none() {
		p.log.WarnContext(ctx, "the policy in AUTH_POLICY has no rule for this service, all requests are refused")
		return
	}
	p.log.InfoContext(ctx, "a policy is in force", slog.String("file", p.path))
}
