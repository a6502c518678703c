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
	// waitingPerPermit bounds the requests that wait, as a multiple of MAX_IN_FLIGHT.
	waitingPerPermit = 16
	// lastingShare is the divisor of MAX_IN_FLIGHT for requests that may last: streams, those with bodies of more than
	// readAhead, and extended ones. They hold their permits while their clients send, or for longer than others.
	lastingShare = 4
)

var errCrowded = errors.New("too many requests wait for a permit already")

// admission gives MAX_IN_FLIGHT permits to requests, and to a share of these the right to last. Requests without a
// permit wait in order of arrival: a channel serves its senders so.
type admission struct {
	permits chan struct{} // an element for each that is held
	lasting chan struct{} // an element for each request that may last
	waiting atomic.Int64
}

// take takes a permit, which give gives back. It waits up to permitWait and until ctx ends, and returns an error
// without a permit.
func (a *admission) take(ctx context.Context) error {
	select {
	case a.permits <- struct{}{}:
		return nil
	default:
	}

	defer a.waiting.Add(-1)
	if a.waiting.Add(1) > int64(cap(a.permits))*waitingPerPermit {
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

// admit lets a request on once its body, or the first part of a longer one, is in memory and it has a permit: a slow
// client, or thousands, must not hold one. It comes after routing, which neither waits nor allocates, so that a refusal
// is counted under its route.
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
				"This replica is working on as many requests as it may. Nothing was applied; try again.",
				problem.Cause(err))
		}
		defer s.admission.give()

		return next(c)
	}
}

// receive reads a body, or its first part, and lets the request last if there is more to come. On an error it holds no
// memory.
func (s *Server) receive(r *request, in *http.Request) error {
	if in.Body == nil || in.Body == http.NoBody {
		return nil
	}
	if s.streams[r.route] {
		return r.mayLast()
	}

	arrived := &arrival{all: &s.arrivals, writer: r.Response(), start: r.start}
	if err := arrived.read(in.Body, in.ContentLength, s.cfg.MaxBody); err != nil {
		arrived.release()
		return notReceived(err)
	}
	r.arrival, in.Body = arrived, arrived
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

// mayLast lets r last until it ends, unless it may already, or refuses it when as many may as can.
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
			"This replica is working on as many long requests as it may. Nothing was applied; try again.")
	}
}

func (r *request) endLasting() {
	if r.lasting {
		r.lasting = false
		<-r.server.admission.lasting
	}
}
