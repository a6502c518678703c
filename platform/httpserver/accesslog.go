package httpserver

import (
	"cmp"
	"log/slog"
	"net/http"
	"time"

	"github.com/rowlock/rowlock/platform/telemetry"
)

// The values of LOG_REQUESTS.
const (
	logAll    = "all"
	logErrors = "errors"
	logNone   = "none"
)

// slowRequest is the duration from which LOG_REQUESTS=errors logs a request.
const slowRequest = time.Second

// linesPerSecond bounds the lines that LOG_REQUESTS=errors writes per code, for all but 500: an overload, a database
// outage or a client's mistake produces thousands of similar answers a second, and no client must be able to fill the
// disk. The metrics count all of them. The bound applies per code, so that none hides another.
const linesPerSecond = 10

// log writes at most one line about the request, with the route's template and never the path.
func (s *Server) log(r *request) {
	status, took := r.status(), time.Since(r.start)
	if omitted, ok := s.logged(r, status, took); ok {
		attributes := s.attributes(r, status, took, r.Response().Size, omitted)
		s.deps.Log.LogAttrs(r.outer, r.level(status), "request", attributes...)
	}
}

// logged reports whether to log the request, and how many similar ones were omitted before it.
func (s *Server) logged(r *request, status int, took time.Duration) (omitted int, ok bool) {
	switch {
	case status == http.StatusInternalServerError || s.cfg.LogRequests == logAll:
		return 0, true
	case s.cfg.LogRequests == logNone, status < http.StatusBadRequest && took <= slowRequest:
		return 0, false
	}

	// There are about two dozen codes, and none for a slow answer.
	sparse, known := s.sparse.Load(r.code())
	if !known {
		sparse, _ = s.sparse.LoadOrStore(r.code(), telemetry.NewSparse(linesPerSecond, time.Second))
	}
	lines, _ := sparse.(*telemetry.Sparse) // it holds nothing else
	return lines.Allow()
}

func (s *Server) attributes(r *request, status int, took time.Duration, size int64, omitted int) []slog.Attr {
	attrs := []slog.Attr{
		slog.String("server", s.name),
		slog.String("method", canonicalMethod(r.method)),
		slog.String("route", cmp.Or(r.route, routeUnmatched)),
		slog.Int("status", status),
		slog.Float64("ms", float64(took.Microseconds())/1000),
		slog.Int64("bytes", size),
		slog.String("request_id", r.id),
	}

	if r.caller != "" {
		attrs = append(attrs, slog.String("caller", r.caller))
	}
	if code := r.code(); code != "" {
		attrs = append(attrs, slog.String("code", code))
	}

	// The error behind a 4xx may quote the client's input, so only the others are logged.
	if r.err != nil && status >= http.StatusInternalServerError {
		attrs = append(attrs, slog.String("error", r.err.Error()))
		if r.stack != nil {
			attrs = append(attrs, slog.String("stack", string(r.stack)))
		}
	}

	if omitted > 0 {
		attrs = append(attrs, slog.Int("omitted", omitted))
	}

	switch {
	case r.answer.cut:
		attrs = append(attrs, slog.Bool("client_slow", true))
	case r.clientLeft():
		attrs = append(attrs, slog.Bool("client_left", true))
	}

	return attrs
}

// level returns the level of the request's line. A 500 needs a person; another 5xx means trouble in a dependency; a 4xx
// is the client's fault. A failure caused by the client's leaving is no fault.
func (r *request) level(status int) slog.Level {
	switch {
	case status < http.StatusInternalServerError || r.clientLeft() && r.stack == nil:
		return slog.LevelInfo
	case status == http.StatusInternalServerError:
		return slog.LevelError
	default:
		return slog.LevelWarn
	}
}
