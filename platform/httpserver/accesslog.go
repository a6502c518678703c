package httpserver

import (
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/rowlock/rowlock/platform/telemetry"
)

// The values of LOG_REQUESTS.
const (
	logAll    = "all"
	logErrors = "errors"
	logNone   = "none"
)

// slowRequest is what LOG_REQUESTS=errors counts as slow.
const slowRequest = time.Second

// linesPerSecond bounds the lines that LOG_REQUESTS=errors writes about answers of 502, 503 and 504 with the same
// code: an overload or an outage of the database makes thousands a second, all alike. The metrics count every one.
// Each code has a bound of its own, so that none hides behind another.
const linesPerSecond = 10

// thinned leaves out lines of each code, of which there are a dozen. The zero value is ready.
type thinned struct{ byCode sync.Map }

// allow reports whether a line with this code may be written, and how many were left out since the last one.
func (t *thinned) allow(code string) (omitted int, ok bool) {
	sparse, known := t.byCode.Load(code)
	if !known {
		sparse, _ = t.byCode.LoadOrStore(code, telemetry.NewSparse(linesPerSecond, time.Second))
	}
	s, _ := sparse.(*telemetry.Sparse) // it holds nothing else
	return s.Allow()
}

// accessLog writes at most one line about each request, what failed included. It has the route's template, never the
// path.
func (s *Server) accessLog() echo.MiddlewareFunc {
	return middleware.RequestLoggerWithConfig(middleware.RequestLoggerConfig{
		HandleError: true, LogLatency: true, LogResponseSize: true,
		LogValuesFunc: func(c echo.Context, v middleware.RequestLoggerValues) error {
			r := requestOf(c.Request().Context())
			status := r.status(c)
			if omitted, ok := s.logged(r, status, v.Latency); ok {
				s.deps.Log.LogAttrs(c.Request().Context(), r.level(status), "request", s.attributes(r, status, v, omitted)...)
			}
			return nil
		},
	})
}

// logged reports whether the request gets a line, and how many like it were left out before it.
func (s *Server) logged(r *request, status int, took time.Duration) (omitted int, ok bool) {
	switch {
	case status == http.StatusInternalServerError || s.cfg.LogRequests == logAll:
		return 0, true
	case s.cfg.LogRequests == logNone:
		return 0, false
	case status > http.StatusInternalServerError:
		return s.thinned.allow(r.code()) // a replica that sheds load must not spend it on the log
	}
	return 0, status >= http.StatusBadRequest || took > slowRequest
}

func (s *Server) attributes(r *request, status int, v middleware.RequestLoggerValues, omitted int) []slog.Attr {
	template := routeUnmatched
	if r.route != nil {
		template = r.route.template
	}
	attrs := []slog.Attr{
		slog.String("server", s.name),
		slog.String("method", canonicalMethod(r.method)),
		slog.String("route", template),
		slog.Int("status", status),
		slog.Float64("ms", float64(v.Latency.Microseconds())/1000),
		slog.Int64("bytes", v.ResponseSize),
		slog.String("request_id", r.id),
	}
	if code := r.code(); code != "" {
		attrs = append(attrs, slog.String("code", code))
	}
	// The error behind a 4xx may quote the client's input.
	if r.err != nil && status >= http.StatusInternalServerError {
		attrs = append(attrs, slog.String("error", r.err.Error()))
		if p, ok := errors.AsType[*panicError](r.err); ok {
			attrs = append(attrs, slog.String("stack", string(p.stack)))
		}
	}
	if omitted > 0 {
		attrs = append(attrs, slog.Int("omitted", omitted))
	}
	if r.clientLeft() {
		attrs = append(attrs, slog.Bool("client_left", true))
	}
	return attrs
}

// level returns the level of the request's line: a 500 needs a person, the other 5xx say that a dependency is in
// trouble, and a 4xx is the client's. What failed because the client left is no fault.
func (r *request) level(status int) slog.Level {
	_, panicked := errors.AsType[*panicError](r.err)
	switch {
	case status < http.StatusInternalServerError || r.clientLeft() && !panicked:
		return slog.LevelInfo
	case status == http.StatusInternalServerError:
		return slog.LevelError
	default:
		return slog.LevelWarn
	}
}
