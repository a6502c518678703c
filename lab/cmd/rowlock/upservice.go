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

// url is the service's address.
func (r *running) url() string { return "http://" + r.listener.Addr().String() }

// schemaPart makes roles and schema on the private server and runs the
// migrations. The replicas then get the role that can do no more than change
// rows. On a server that is not ours nobody makes roles: there the replicas
// migrate at start, as they are told by DATABASE_URL.
func (r *running) schemaPart() lifecycle.Part {
	return lifecycle.Part{Name: r.service.Name + " schema", Start: func(ctx context.Context) error {
		r.environ = r.system.replicaEnviron()
		if r.system.server == nil {
			return nil
		}
		return local.Provision(ctx, r.binary, r.system.server.URL(database), local.SchemaOf(r.service), r.environ)
	}}
}

// balancerStopTimeout bounds the end of a balancer. The replicas are gone by then: whoever is still there has been slow himself, and must
// not use up the time in which PostgreSQL stops in order.
const balancerStopTimeout = 5 * time.Second

// balancerPart gives the service its one address. It comes before the replicas,
// so that it is stopped after them: answers that are on their way still pass.
func (r *running) balancerPart() lifecycle.Part {
	return lifecycle.Part{
		Name: r.service.Name + " balancer",
		Start: func(ctx context.Context) (err error) {
			if r.listener, err = r.listen(ctx); err != nil {
				return err
			}
			r.balancer = local.NewBalancer(r.service.Name, r)
			return nil
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

// Where another port is looked for: 8183, 8283, ... for 8083; the services'
// usual ports are close together.
const (
	portStep  = 100
	portTries = 10
)

// listen takes the service's port, or another one and says so.
func (r *running) listen(ctx context.Context) (net.Listener, error) {
	var lc net.ListenConfig
	var first error
	for i := range portTries + 1 {
		port := r.service.Port + i*portStep
		if i == portTries {
			port = 0
		}
		ln, err := lc.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			if first != nil {
				r.system.console.say("Port %d is in use: %s is at %s instead", r.service.Port, r.service.Name, ln.Addr())
			}
			return ln, nil
		}
		if first == nil {
			first = err
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	return nil, fmt.Errorf("find a port for %s: %w", r.service.Name, first)
}

// replicasPart runs the replicas.
func (r *running) replicasPart() lifecycle.Part {
	return lifecycle.Part{
		Name: r.service.Name + " replicas",
		Start: func(ctx context.Context) error {
			r.system.console.say("Starting %s of %s", plural(r.system.replicas, "replica"), r.service.Name)
			set, err := local.Start(ctx, local.Spec{
				Service: r.service.Name, Path: r.binary, Environ: r.environ, Line: r.system.line, Notify: r.system.notify,
			}, r.system.replicas)
			if err != nil {
				return err
			}
			r.set.Store(set)
			return nil
		},
		Stop: func(ctx context.Context) error {
			r.system.console.say("Stopping %s of %s", plural(r.system.replicas, "replica"), r.service.Name)
			ctx, cancel := hurried(ctx, r.system.hurry)
			defer cancel()
			return r.set.Load().Stop(ctx)
		},
	}
}

// workerPart runs one process of the service's workers.
func (r *running) workerPart() lifecycle.Part {
	var set *local.Set
	return lifecycle.Part{
		Name: r.service.Name + " worker",
		Start: func(ctx context.Context) (err error) {
			r.system.console.say("Starting a worker of %s", r.service.Name)
			set, err = local.Start(ctx, local.Spec{
				Service: r.service.Name + "-worker", Path: r.binary, Args: []string{r.service.Worker}, NoAPI: true,
				Environ: r.environ, Line: r.system.line, Notify: r.system.notify,
			}, 1)
			return err
		},
		Stop: func(ctx context.Context) error {
			r.system.console.say("Stopping the worker of %s", r.service.Name)
			ctx, cancel := hurried(ctx, r.system.hurry)
			defer cancel()
			return set.Stop(ctx)
		},
	}
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
