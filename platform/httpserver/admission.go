package httpserver

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/rowlock/rowlock/platform/problem"
)

const (
	// slotWait is how long a request may wait for another to end. It is a generous multiple of the 50 ms after which a
	// coalescer knows that a row is locked by another transaction, and refuses that row's callers: until then these may
	// fill MAX_IN_FLIGHT, and no other request is to be refused for it.
	slotWait = 250 * time.Millisecond
	// waitingPerSlot bounds the requests that wait, as a multiple of MAX_IN_FLIGHT.
	waitingPerSlot = 16
	// lastingShare is the divisor of MAX_IN_FLIGHT for requests that may last: streams, those with bodies of more than
	// readAhead, and extended ones. They hold their slots while their clients send, or for longer than others.
	lastingShare = 4
)

var errCrowded = errors.New("too many requests wait for a slot already")

// slots admits MAX_IN_FLIGHT requests at once. The others wait in order of arrival: a channel serves its senders so.
type slots struct {
	held    chan struct{}
	waiting *atomic.Int64
}

func newSlots(n int) slots { return slots{held: make(chan struct{}, n), waiting: new(atomic.Int64)} }

// take takes a slot, which give gives back. It waits up to slotWait and until ctx ends, and returns an error without a
// slot.
func (s slots) take(ctx context.Context) error {
	select {
	case s.held <- struct{}{}:
		return nil
	default:
	}
	defer s.waiting.Add(-1)
	if s.waiting.Add(1) > int64(cap(s.held))*waitingPerSlot {
		return errCrowded
	}
	ctx, cancel := context.WithTimeout(ctx, slotWait)
	defer cancel()
	select {
	case s.held <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s slots) give() { <-s.held }

// taken returns how many slots are taken.
func (s slots) taken() int { return len(s.held) }

// limitInFlight lets MAX_IN_FLIGHT requests on at once, and refuses a request that waited for its turn in vain. It
// comes after routing, which neither waits nor allocates, so that a refusal is counted under its route.
func (s *Server) limitInFlight(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := requestOf(c)
		if r.route == "" {
			return next(c)
		}
		err := s.slots.take(c.Request().Context())
		if r.arrival != nil {
			r.arrival.release()
		}
		if err != nil {
			return problem.Overloaded.New(
				"This replica is working on as many requests as it may. Nothing was applied; try again.",
				problem.Cause(err))
		}
		defer s.slots.give()
		return next(c)
	}
}

// mayLast takes a place of those of requests that may last, unless r has one, until end is called.
func (r *request) mayLast() (end func(), err error) {
	if r.lasting {
		return func() {}, nil
	}
	select {
	case r.server.lasting <- struct{}{}:
		r.lasting = true
		return func() { r.lasting = false; <-r.server.lasting }, nil
	default:
		return nil, problem.Overloaded.New(
			"This replica is working on as many long requests as it may. Nothing was applied; try again.")
	}
}
