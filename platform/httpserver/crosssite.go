package httpserver

import (
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/rowlock/rowlock/platform/problem"
)

// refuseCrossSite returns middleware that refuses a browser's request from a page of another origin, judging by
// Sec-Fetch-Site or else Origin, unless the method is safe. No service uses cookies, but any page could make a browser
// that reaches the port send a change. The page under /docs has the same origin. Other clients send neither header.
func refuseCrossSite() echo.MiddlewareFunc {
	var protection http.CrossOriginProtection
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if err := protection.Check(c.Request()); err != nil && requestOf(c).route != "" {
				return problem.CrossSite.New("A page of another origin must not send this request. Nothing was applied.",
					problem.Cause(err))
			}
			return next(c)
		}
	}
}

// refuseOverride is middleware that refuses a header which asks for another method than the request's, as frameworks
// define for clients that cannot send DELETE: the request would be taken for what its own method says.
func refuseOverride(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		for _, name := range []string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override"} {
			if other := c.Request().Header.Get(name); other != "" && !strings.EqualFold(other, c.Request().Method) {
				return problem.InvalidField.New("The method cannot be set by a header. Nothing was applied.",
					problem.Field(name))
			}
		}
		return next(c)
	}
}
