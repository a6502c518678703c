package httpserver

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/rowlock/rowlock/platform/problem"
)

// refuseCrossSite returns middleware that refuses a browser's request from a page of another origin, by its
// Sec-Fetch-Site or else by its Origin, unless the method is safe: no service has cookies, but a page anywhere could
// make a browser that reaches the port send a change. The page under /docs is of the same origin. Other clients send
// neither header.
func refuseCrossSite() echo.MiddlewareFunc {
	var protection http.CrossOriginProtection
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if err := protection.Check(c.Request()); err != nil && requestOf(c).route != "" {
				leaveBody(c)
				return problem.CrossSite.New("A page of another origin must not send this request. Nothing was applied.",
					problem.Cause(err))
			}
			return next(c)
		}
	}
}

// leaveBody lets net/http answer before it has read the request's body, which takes a connection of HTTP/1 with it.
func leaveBody(c echo.Context) {
	if in := c.Request(); in.ProtoMajor < 2 && in.Body != http.NoBody {
		c.Response().Header().Set(echo.HeaderConnection, "close")
	}
}
