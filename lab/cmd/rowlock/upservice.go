package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/lab/internal/services"
	"github.com/rowlock/rowlock/platform/lifecycle"
)

// running is one service of a [system].
type running struct {
	system  *system
	service services.Service
	binary  string
	environ map[string]string // of the replicas

	listener net.Listener
	balancer *local.Balancer
	set      atomic.Pointer[local.Set] // nil until all replicas are ready for the first time
}

// Backends lists the replicas that take requests, for the balancer.
func (r *running) Backends() []local.Backend {
	if set := r.set.Load(); set != nil {
		return set.Backends()
	}
	return nil
}

// url returns the service's address.
func (r *running) url() string { return "http://" + r.listener.Addr().String() }

// schemaPart makes roles and schema on the private server. On the server of DATABASE_URL the replicas migrate at their
// start, with the role that it names.
func (r *running) schemaPart() lifecycle.Part {
	return lifecycle.Part{Name: r.service.Name + " schema", Start: func(ctx context.Context) error {
		r.environ = r.system.replicaEnviron()
		if r.system.server == nil {
			return nil
		}
		admin := r.system.server.URL(database)
		return local.Provision(ctx, r.binary, admin, local.SchemaOf(r.service), r.environ)
	}}
}

// balancerStopTimeout bounds the stop of a balancer, which comes after that of its replicas: a slow client must not use
// up the time in which PostgreSQL stops in order.
const balancerStopTimeout = 5 * time.Second

// balancerPart gives the service its one address. It is stopped after the replicas, so that their last answers pass.
func (r *running) balancerPart() lifecycle.Part {
	return lifecycle.Part{
		Name: r.service.Name + " balancer",
		Start: func(ctx context.Context) (err error) {
			r.balancer = local.NewBalancer(r.service.Name, r)
			r.listener, err = r.listen(ctx)
			return err
		},
		Run: func(context.Context) error { return r.balancer.Serve(r.listener) },
		Stop: func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, balancerStopTimeout)
			defer cancel()
			hurry, cancel := hurried(ctx, r.system.hurry)
			defer cancel()
			err := r.balancer.Shutdown(hurry)
			if err != nil && ctx.Err() != nil {
				r.system.console.say("Cut off clients of %s that had not sent or read to the end", r.service.Name)
				return nil
			}
			return err
		},
	}
}

// listen listens on the service's port, or on a free one where that is in use.
func (r *running) listen(ctx context.Context) (net.Listener, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(r.service.Port)))
	if errors.Is(err, syscall.EADDRINUSE) {
		if ln, err = lc.Listen(ctx, "tcp", "127.0.0.1:0"); err == nil {
			r.system.console.say("Port %d is in use: %s is at %s instead", r.service.Port, r.service.Name, ln.Addr())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("find a port for %s: %w", r.service.Name, err)
	}
	return ln, nil
}

// replicasPart runs the replicas.
func (r *running) replicasPart() lifecycle.Part {
	what := "1 replica of " + r.service.Name
	if n := r.system.replicas; n > 1 {
		what = fmt.Sprintf("%d replicas of %s", n, r.service.Name)
	}
	return r.processesPart(what, local.Spec{Service: r.service.Name}, r.system.replicas, r.set.Store)
}

// workerPart runs one process of the service's workers.
func (r *running) workerPart() lifecycle.Part {
	spec := local.Spec{Service: r.service.Name + "-worker", Args: []string{r.service.Worker}, NoAPI: true}
	return r.processesPart("a worker of "+r.service.Name, spec, 1, func(*local.Set) {})
}

// processesPart runs n processes; started is called with them when they are ready.
func (r *running) processesPart(what string, spec local.Spec, n int, started func(*local.Set)) lifecycle.Part {
	var set *local.Set
	return lifecycle.Part{
		Name: what,
		Start: func(ctx context.Context) (err error) {
			r.system.console.say("Starting %s", what)
			spec.Path, spec.Environ, spec.Notify = r.binary, r.environ, r.system.notify
			spec.Line = logLines(r.system.logs, r.system.console, r.system.verbose)
			if set, err = local.Start(ctx, spec, n); err == nil {
				started(set)
			}
			return err
		},
		Stop: func(ctx context.Context) error {
			r.system.console.say("Stopping %s", what)
			ctx, cancel := hurried(ctx, r.system.hurry)
			defer cancel()
			return set.Stop(ctx)
		},
	}
}

// notify prints what happens to a replica.
func (s *system) notify(e local.Event) {
	switch {
	case e.Kind == local.Ended:
		s.console.say("%s (process %d) ended after %s: %v; starting it again in %s", e.Replica, e.PID, round(e.After), e.Err,
			round(e.Pause))
	case e.Starts > 1:
		s.console.say("%s is back (process %d)", e.Replica, e.PID)
	}
}

// round rounds a duration for a message.
func round(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(100 * time.Millisecond)
}
