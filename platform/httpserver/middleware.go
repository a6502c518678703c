package httpserver

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/rowlock/rowlock/platform/problem"
)

// use registers what a request passes before its handler, in this order. net/http has already read the header, within
// 5 s and 32 KiB, and answers what it cannot read.
func (s *Server) use() {
	list := []echo.MiddlewareFunc{
		requestID(),       // X-Request-Id: the client's if it is a UUID, else a new one
		s.observe,         // span, metrics and log line, by route template; turns an error into the answer
		s.authorize,       // no valid token: 401; no rule allows the caller: 403
		refuseCrossSite(), // a change sent by a page of another origin: 403
		refuseOverride,    // another method in a header: 400
		s.timeout,         // REQUEST_TIMEOUT becomes the deadline of the context, in a copy of the request
		s.limitBody(),     // above MAX_BODY: 413
		s.admit,           // reads the body, or the first part of a long one, within 5 s; above MAX_IN_FLIGHT: 503
		recoverPanic(),    // a panic becomes INTERNAL, logged with its stack
		decodeParams,      // decodes path parameters, once
	}

	// echo would build the chain for each request; this builds it once.
	chain := func(c echo.Context) error { return requestOf(c).handler(c) }
	for _, middleware := range slices.Backward(list) {
		chain = middleware(chain)
	}
	s.echo.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error { return chain(s.begin(c, next)) }
	})
}

// observe traces, measures and logs the request. If the answer broke off, it cuts the connection, so that no client
// takes a part for the whole.
func (s *Server) observe(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := requestOf(c)
		defer r.readOn()
		span := s.startSpan(r)
		defer span.End()

		c.Response().Before(func() {
			r.leaveBody()
			if s.mustClose(c.Request()) {
				c.Response().Header().Set(echo.HeaderConnection, "close")
			}
		})

		// Deferred, so that a request counts even if a panic passes recoverPanic.
		returned := false
		defer func() {
			r.aborted = r.aborted || !returned
			if r.answer.cut {
				s.metrics.cut.Inc()
			}
			s.metrics.observe(r, r.status(), time.Since(r.start), span.SpanContext())
		}()

		if err := next(c); err != nil {
			r.Error(err)
		}
		returned = true
		r.aborted = r.aborted || r.answer.cut
		s.log(r)
		conclude(span, r, r.status())

		// net/http cuts the connection.
		if r.aborted {
			panic(http.ErrAbortHandler)
		}
		return nil
	}
}

// requestID accepts a client's X-Request-Id only if it is a UUID in its usual form.
func requestID() echo.MiddlewareFunc {
	const usualForm = 36
	return middleware.RequestIDWithConfig(middleware.RequestIDConfig{
		Generator: uuid.NewString,
		RequestIDHandler: func(c echo.Context, id string) {
			if len(id) != usualForm || uuid.Validate(id) != nil {
				id = uuid.NewString()
				c.Response().Header().Set(echo.HeaderXRequestID, id)
			}
			requestOf(c).id = id
		},
	})
}

// limitBody refuses a body above MAX_BODY, judging by its declared length or by the bytes that arrive. It skips a
// request without a body, and one without a route, which gets 404 or 405 in any case. It replaces the body, so it must
// come after timeout, which copies the request: net/http looks at the body of the original request to recognise a
// client that waits for 100 Continue, and to skip a body that admit did not read.
func (s *Server) limitBody() echo.MiddlewareFunc {
	return middleware.BodyLimitWithConfig(middleware.BodyLimitConfig{
		Limit:   strconv.FormatInt(s.cfg.MaxBody, 10) + "B",
		Skipper: func(c echo.Context) bool { return requestOf(c).route == "" || c.Request().Body == http.NoBody },
	})
}

// timeout ends the request's context after REQUEST_TIMEOUT. errors.go decides what a deadline means: it does not prove
// that nothing was applied.
func (s *Server) timeout(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		ctx, cancel := context.WithTimeout(requestOf(c).outer, s.cfg.RequestTimeout)
		defer cancel()
		c.SetRequest(c.Request().WithContext(ctx))
		return next(c)
	}
}

// recoverPanic turns a panic into an error with its stack.
func recoverPanic() echo.MiddlewareFunc {
	return middleware.RecoverWithConfig(middleware.RecoverConfig{
		DisableStackAll:     true,
		DisableErrorHandler: true,
		LogErrorFunc: func(c echo.Context, err error, stack []byte) error {
			requestOf(c).stack = stack
			return fmt.Errorf("panic: %v", err) //nolint:errorlint // a wrapped error must not choose the answer
		},
	})
}

// decodeParams decodes the path's parameters exactly once: "a%2Fb" is a/b, "100%25" is 100%, a plus stays a plus.
// Invalid UTF-8 and NUL, which no database stores in text, are 400 INVALID_FIELD.
func decodeParams(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if !requestOf(c).fits {
			return echo.ErrNotFound
		}

		values := c.ParamValues()
		for i, name := range c.ParamNames() {
			value, err := url.PathUnescape(values[i])
			switch {
			case err != nil:
				return problem.InvalidField.New("The path's "+name+" has a bad percent escape.", problem.Field(name))
			case !utf8.ValidString(value):
				return problem.InvalidField.New("The path's "+name+" is not valid UTF-8.", problem.Field(name))
			case strings.IndexByte(value, 0) >= 0:
				return problem.InvalidField.New("The path's "+name+" has a NUL.", problem.Field(name))
			}
			values[i] = value
		}

		c.SetParamValues(values...)
		c.Request().URL.RawPath = "" // generated code must not decode them again
		return next(c)
	}
}
