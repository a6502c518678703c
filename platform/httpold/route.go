package httpold

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"
)

// maxParams is how many parameters a pattern may have: a request keeps their
// values in place.
const maxParams = 4

// pattern is one path with everything that is served on it.
type pattern struct {
	template string            // as it was given to Handle first
	slashes  int               // in the template, and in every path that it means
	routes   map[string]*route // by method
}

// route is one method on one path.
type route struct {
	*pattern

	handler   Handler
	params    []string // names, in order
	observers observers
	implied   bool // HEAD beside GET, OPTIONS: gives way to an explicit one
}

// Handle serves method on pattern: a path that begins with a slash, in which a
// whole segment may be a parameter in braces, "/api/v1/counts/{itemId}/reset".
// A parameter stands for one segment that is not empty; see PathParam. Where
// two patterns fit a path, a literal segment wins over a parameter.
//
// GET serves HEAD too unless HEAD has a handler of its own, and every pattern
// answers OPTIONS. Any other method is 405 with Allow, any other path is 404.
//
// Call it before Serve. A pattern that breaks these rules, or one that is there
// already, is a mistake in the program, not in its input: Handle panics.
func (s *Server) Handle(method, pattern string, h Handler) {
	if h == nil || canonicalMethod(method) != method || method == http.MethodConnect {
		panic(fmt.Sprintf("httpserver: %q %s: not a method that can be served, or no handler", method, pattern))
	}
	params, err := parsePattern(pattern)
	if err != nil {
		panic(fmt.Sprintf("httpserver: pattern %q: %v", pattern, err))
	}
	p := s.patternOf(pattern)
	if known := p.routes[method]; known != nil && !known.implied {
		panic(fmt.Sprintf("httpserver: %s %s is served already", method, pattern))
	}
	s.add(method, &route{pattern: p, handler: h, params: params})
	if method == http.MethodGet && p.routes[http.MethodHead] == nil {
		s.add(http.MethodHead, &route{pattern: p, handler: h, params: params, implied: true})
	}
	if p.routes[http.MethodOptions] == nil {
		s.add(http.MethodOptions, &route{pattern: p, handler: p.options, params: params, implied: true})
	}
}

func (s *Server) add(method string, r *route) {
	r.observers.of = s.metrics.of(method, r.template)
	r.routes[method] = r
	s.router.Add(method, routerPath(r.template), func(c echo.Context) error { return s.matched(r, c) })
}

// patternOf finds the pattern of that shape or makes it. The names of
// parameters are no part of the shape: GET /a/{x} and PUT /a/{y} are one
// resource with one Allow.
func (s *Server) patternOf(template string) *pattern {
	shape := shapeOf(routerPath(template))
	p := s.patterns[shape]
	if p == nil {
		p = &pattern{template: template, slashes: strings.Count(template, "/"), routes: make(map[string]*route)}
		s.patterns[shape] = p
	}
	return p
}

// allow is the header Allow of the pattern.
func (p *pattern) allow() string {
	methods := make([]string, 0, len(p.routes))
	for method := range p.routes {
		methods = append(methods, method)
	}
	slices.Sort(methods)
	return strings.Join(methods, ", ")
}

// options answers OPTIONS (RFC 9110, section 9.3.7).
func (p *pattern) options(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Allow", p.allow())
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// parsePattern returns the names of the parameters.
func parsePattern(pattern string) ([]string, error) {
	if !strings.HasPrefix(pattern, "/") {
		return nil, errors.New("it does not begin with a slash")
	}
	var names []string
	for segment := range strings.SplitSeq(pattern[1:], "/") {
		name, isParam := paramName(segment)
		switch {
		case !isParam && strings.ContainsAny(segment, `{}:*\%`):
			return nil, fmt.Errorf("segment %q is neither plain nor a parameter", segment)
		case isParam && (name == "" || strings.ContainsAny(name, `{}:*\%`)):
			return nil, fmt.Errorf("parameter %q has no usable name", segment)
		case isParam && slices.Contains(names, name):
			return nil, fmt.Errorf("parameter %q is there twice", name)
		case isParam:
			names = append(names, name)
		}
	}
	if len(names) > maxParams {
		return nil, fmt.Errorf("more than %d parameters", maxParams)
	}
	return names, nil
}

func paramName(segment string) (string, bool) {
	rest, opens := strings.CutPrefix(segment, "{")
	name, closes := strings.CutSuffix(rest, "}")
	return name, opens && closes
}

// routerPath is the template in the router's own notation.
func routerPath(template string) string {
	segments := strings.Split(template, "/")
	for i, segment := range segments {
		if name, ok := paramName(segment); ok {
			segments[i] = ":" + name
		}
	}
	return strings.Join(segments, "/")
}

// shapeOf is a path in the router's notation without the parameters' names.
func shapeOf(routerPath string) string {
	segments := strings.Split(routerPath, "/")
	for i, segment := range segments {
		if strings.HasPrefix(segment, ":") {
			segments[i] = ":"
		}
	}
	return strings.Join(segments, "/")
}
