// Package clienttest helps to test the clients.
package clienttest

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"syscall"

	rowlock "github.com/rowlock/rowlock/client"
)

// Script answers requests one by one, repeating its last answer, and records the
// requests. It replaces the network, so that a test in a bubble of testing/synctest
// measures the pauses of a call without waiting.
type Script struct {
	Answers []Answer
	// Keys, Bodies, Tokens and Hosts hold the requests' parts.
	Keys, Bodies, Tokens, Hosts []string
}

// Answer is what a service or a network answers.
type Answer struct {
	Status int
	Body   string
	// After is the header Retry-After.
	After string
	// Err, if set, is the transport's error instead of an answer.
	Err error
	// Handler, if set, makes the answer.
	Handler http.Handler
}

// Answers of any service and any network.
var (
	Overloaded      = Answer{Status: http.StatusServiceUnavailable, Body: `{"code":"OVERLOADED"}`}
	OutcomeUnknown  = Answer{Status: http.StatusInternalServerError, Body: `{"code":"OUTCOME_UNKNOWN"}`}
	Unauthenticated = Answer{Status: http.StatusUnauthorized, Body: `{"code":"UNAUTHENTICATED"}`}
	Lost            = Answer{Err: io.ErrUnexpectedEOF}
	Refused         = Answer{Err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}
)

// RoundTrip implements http.RoundTripper.
func (s *Script) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := req.Context().Err(); err != nil {
		return nil, err
	}

	var body []byte
	if req.Body != nil {
		var err error
		body, err = io.ReadAll(req.Body)
		if err != nil {
			return nil, fmt.Errorf("read the request: %w", err)
		}
	}

	a := s.Answers[min(len(s.Keys), len(s.Answers)-1)]
	s.Keys = append(s.Keys, req.Header.Get("Idempotency-Key"))
	s.Tokens = append(s.Tokens, req.Header.Get("Authorization"))
	s.Bodies = append(s.Bodies, string(body))
	s.Hosts = append(s.Hosts, req.URL.Host)

	if a.Err != nil {
		return nil, a.Err
	}

	recorder := httptest.NewRecorder()
	if a.After != "" {
		recorder.Header().Set("Retry-After", a.After)
	}
	if a.Handler != nil {
		received := req.Clone(req.Context())
		received.Body = io.NopCloser(bytes.NewReader(body))
		a.Handler.ServeHTTP(recorder, received)
	} else {
		recorder.WriteHeader(a.Status)
		_, _ = recorder.WriteString(a.Body)
	}

	resp := recorder.Result()
	resp.Request = req
	return resp, nil
}

// Option returns a client option that sends requests to the script.
func (s *Script) Option() rowlock.Option { return rowlock.WithHTTPClient(&http.Client{Transport: s}) }
