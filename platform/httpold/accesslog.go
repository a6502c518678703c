package httpold

import (
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/rowlock/rowlock/platform/telemetry"
)

// The values of LOG_REQUESTS.
const (
	logAll    = "all"
	logErrors = "errors"
	logNone   = "none"
)

// slowRequest is what LOG_REQUESTS=errors counts as one.
const slowRequest = time.Second

// refusalsPerSecond is how many lines LOG_REQUESTS=errors writes at most about
// answers of 502, 503 and 504 with the same code: an overload or a database that is
// away makes thousands a second, all alike. The metrics count every one. Each code
// counts for itself, so that none hides behind another.
const refusalsPerSecond = 10

// refusals thins out the lines of each code, of which there are a dozen. The zero
// value is ready.
type refusals struct{ byCode sync.Map }

// allow tells whether a line about this answer may be written, and how many of its
// code were left out since the last one.
func (r *refusals) allow(code string) (omitted int, ok bool) {
	sparse, known := r.byCode.Load(code)
	if !known {
		sparse, _ = r.byCode.LoadOrStore(code, telemetry.NewSparse(refusalsPerSecond, time.Second))
	}
	s, _ := sparse.(*telemetry.Sparse) // it holds nothing else
	return s.Allow()
}

// log writes the one line of the request, if it is to have one: what failed
// stands in it too. The path appears as the route's template only.
func (ex *exchange) log(took time.Duration, clientLeft bool) {
	status := ex.booked()
	if !ex.server.logged(status, took) {
		return
	}
	omitted := 0
	if status > http.StatusInternalServerError && ex.server.cfg.LogRequests != logAll {
		// Who sheds load must not spend it on saying so.
		var ok bool
		if omitted, ok = ex.server.refusals.allow(ex.code()); !ok {
			return
		}
	}
	const most = 13
	attrs := make([]slog.Attr, 0, most)
	template := routeUnmatched
	if ex.route != nil {
		template = ex.route.template
	}
	attrs = append(attrs,
		slog.String("server", ex.server.name),
		slog.String("method", canonicalMethod(ex.request.Method)),
		slog.String("route", template),
		slog.Int("status", status),
		slog.Float64("ms", float64(took.Microseconds())/1000),
		slog.Int64("bytes", ex.written),
		slog.String("request_id", ex.requestID),
	)
	if code := ex.code(); code != "" {
		attrs = append(attrs, slog.String("code", code))
	}
	// Behind a 4xx there is the client's input, which is nobody's business.
	if ex.failure != nil && status >= http.StatusInternalServerError {
		attrs = append(attrs, slog.String("error", ex.failure.Error()))
		if p, ok := errors.AsType[*panicError](ex.failure); ok {
			attrs = append(attrs, slog.String("stack", string(p.stack)))
		}
	}
	if omitted > 0 {
		attrs = append(attrs, slog.Int("omitted", omitted))
	}
	level := levelOf(status)
	if clientLeft {
		attrs = append(attrs, slog.Bool("client_left", true))
		if _, ok := errors.AsType[*panicError](ex.failure); !ok {
			level = slog.LevelInfo // time ran out because somebody hung up
		}
	}
	ex.server.log.LogAttrs(&ex.ctx, level, "request", attrs...)
}

// code is that of the error table which the answer names, else empty.
func (ex *exchange) code() string {
	if ex.problem == nil {
		return ""
	}
	return ex.problem.Kind().Code()
}

func (s *Server) logged(status int, took time.Duration) bool {
	switch {
	case status == http.StatusInternalServerError || s.cfg.LogRequests == logAll:
		return true
	case s.cfg.LogRequests == logNone:
		return false
	default:
		return status >= http.StatusBadRequest || took > slowRequest
	}
}

// levelOf: 500 is for somebody to look at, the other 5xx say that a neighbour
// is in trouble, and a 4xx is the client's.
func levelOf(status int) slog.Level {
	switch {
	case status == http.StatusInternalServerError:
		return slog.LevelError
	case status > http.StatusInternalServerError:
		return slog.LevelWarn
	default:
		return slog.LevelInfo
	}
}
