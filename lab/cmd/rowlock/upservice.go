package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/lab/internal/targets"
	"github.com/rowlock/rowlock/platform/lifecycle"
)

// running is one service of a [system].
type running struct {
	system   *system
	service  targets.Service
	binary   string
	environ  map[string]string // of the replicas
	balancer *local.Balancer
	replicas *local.Set
}

// parts returns what is started for the service, in order. The balancer is stopped after the replicas, so that their
// last answers pass.
func (r *running) parts() []lifecycle.Part {
	name, n := r.service.Name, r.system.replicas
	what := "1 replica of " + name
	if n > 1 {
		what = fmt.Sprintf("%d replicas of %s", n, name)
	}
	parts := []lifecycle.Part{
		{Name: name + " schema", Start: r.provision},
		{Name: name + " balancer", Start: r.startBalancer, Stop: r.stopBalancer},
		r.processes(what, local.Spec{Service: name}, n, func(set *local.Set) {
			r.replicas = set
			r.balancer.To(set)
		}),
	}
	if r.service.Worker != "" {
		spec := local.Spec{Service: name + "-worker", Command: r.service.Worker}
		parts = append(parts, r.processes("a worker of "+name, spec, 1, func(*local.Set) {}))
	}
	return parts
}

// provision makes the service's secret, and roles and schema on the private server. On the server of DATABASE_URL the
// replicas migrate at their start, with the role that it names.
func (r *running) provision(ctx context.Context) (err error) {
	r.environ = r.system.replicaEnviron()
	if variable := r.service.Secret; variable != "" && r.environ[variable] == "" {
		if r.environ[variable], err = keptSecret(r.system.data, variable); err != nil {
			return err
		}
	}
	if r.system.server == nil {
		return nil
	}
	return local.Provision(ctx, r.binary, r.system.server.URL(database), local.SchemaOf(r.service), r.environ)
}

// startBalancer gives the service its one address, with another port where its own is in use.
func (r *running) startBalancer(ctx context.Context) (err error) {
	r.balancer, err = local.NewBalancer(ctx, r.service.Name, r.service.Port)
	if !errors.Is(err, syscall.EADDRINUSE) {
		return err
	}
	if r.balancer, err = local.NewBalancer(ctx, r.service.Name, 0); err == nil {
		r.system.console.say("Port %d is in use: %s is at %s instead", r.service.Port, r.service.Name, r.balancer.URL())
	}
	return err
}

// stopBalancer cuts off slow clients, which are no failure.
func (r *running) stopBalancer(context.Context) error {
	ctx, cancel := r.system.stopping()
	defer cancel()
	if r.balancer.Stop(ctx) != nil {
		r.system.console.say("Cut off clients of %s that had not sent or read to the end", r.service.Name)
	}
	return nil
}

// processes runs n processes; started is called with them when they are ready.
func (r *running) processes(what string, spec local.Spec, n int, started func(*local.Set)) lifecycle.Part {
	var set *local.Set
	return lifecycle.Part{
		Name: what,
		Start: func(ctx context.Context) (err error) {
			r.system.console.say("Starting %s", what)
			spec.Path, spec.Environ = r.binary, r.environ
			spec.Line = logLines(r.system.logs, r.system.console, r.system.verbose)
			spec.Say = func(sentence string) { r.system.console.say("%s", sentence) }
			if set, err = local.Start(ctx, spec, n); err == nil {
				started(set)
			}
			return err
		},
		Stop: func(context.Context) error {
			r.system.console.say("Stopping %s", what)
			ctx, cancel := r.system.stopping()
			defer cancel()
			return set.Stop(ctx)
		},
	}
}
