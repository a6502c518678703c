package httpserver

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/rowlock/rowlock/platform/problem"
)

const (
	// permitWait limits how long a request waits for a permit. Group commit needs 50 ms to notice a locked row; it then
	// sends that row's callers to a lane and refuses those beyond the lane's share. Until it notices, these callers may
	// hold every permit, and no other request is to be refused because of them.
	permitWait = 250 * time.Millisecond
	// waitingPerPermit bounds the waiting requests, as a multiple of MAX_IN_FLIGHT.
	waitingPerPermit = 16
	// lastingShare is the fraction of MAX_IN_FLIGHT for long requests: streams, bodies longer than readAhead, and
	// extended requests. They hold their permits while their clients send, or for longer than others.
	lastingShare = 4
)

var errCrowded = errors.New("too many requests wait for a permit already")

// admission hands out MAX_IN_FLIGHT permits, a share of them to long requests. Requests wait for a permit in order of
// arrival, because a channel serves its senders in order.
type admission struct {
	permits chan struct{} // one element per permit that is held
	lasting chan struct{} // one element per long request
	waiting atomic.Int64
}

// take takes a permit, to be returned with give. It waits up to permitWait or until ctx ends, and returns an error if
// it got none.
func (a *admission) take(ctx context.Context) error {
	select {
	case a.permits <- struct{}{}:
		return nil
	default:
	}

	waiting := a.waiting.Add(1)
	defer a.waiting.Add(-1)
	if waiting > int64(cap(a.permits))*waitingPerPermit {
		return errCrowded
	}

	ctx, cancel := context.WithTimeout(ctx, permitWait)
	defer cancel()
	select {
	case a.permits <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (a *admission) give() { <-a.permits }

// admit lets a request proceed when it has a permit. Before it takes one, it reads the body, or the first part of a
// long one, into memory: slow clients must not hold permits. It comes after routing, which neither waits nor allocates,
// so that a refusal is counted under its route.
func (s *Server) admit(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := requestOf(c)
		if r.route == "" {
			return next(c)
		}
		defer r.endLasting()

		if err := s.receive(r, c.Request()); err != nil {
			return err
		}

		err := s.admission.take(c.Request().Context())
		r.arrival.release()
		if err != nil {
			return problem.Overloaded.New(
				"This replica is at its request limit. Nothing was applied; try again.",
				problem.Cause(err))
		}
		defer s.admission.give()

		return next(c)
	}
}

// receive reads a body, or its first part, and marks the request as long if there is more. After an error it holds no
// memory.
func (s *Server) receive(r *request, in *http.Request) error {
	if in.Body == nil || in.Body == http.NoBody {
		return nil
	}

	arrived := &arrival{all: &s.arrivals, writer: r.Response(), start: r.start, rest: in.Body}
	r.arrival = arrived
	if s.streams[r.route] {
		in.Body = arrived
		return r.mayLast()
	}

	if err := arrived.read(in.ContentLength, s.cfg.MaxBody); err != nil {
		arrived.release()
		return notReceived(err)
	}
	in.Body = arrived
	if arrived.whole {
		in.ContentLength = int64(len(arrived.data))
		return nil
	}

	if err := r.mayLast(); err != nil {
		arrived.release()
		return err
	}
	return nil
}

// mayLast marks r as a long request until it ends, or refuses it if there are too many long requests.
func (r *request) mayLast() error {
	if r.lasting {
		return nil
	}
	select {
	case r.server.admission.lasting <- struct{}{}:
		r.lasting = true
		return nil
	default:
		return problem.Overloaded.New(
			"This replica is at its limit of long requests. Nothing was applied; try again.")
	}
}

func (r *request) endLasting() {
	if r.lasting {
		r.lasting = false
		<-r.server.admission.lasting
	}
}
