package httpapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/rowlock/rowlock/platform/httpserver"
	"github.com/rowlock/rowlock/platform/problem"
)

const (
	// twirp is the path prefix of Twirp clients.
	twirp = "/twirp"
	// typeProtobuf is Twirp's name for typeProto.
	typeProtobuf = "application/protobuf"
)

// serveTwirp handles a request of a Twirp client by Connect's handler, whose answers have the same bodies. It returns
// what is refused, for ErrorWriter.
func (p procedure) serveTwirp(c echo.Context) error {
	r, answer := c.Request(), &twirpAnswer{ResponseWriter: c.Response()}

	var err error
	switch media := mediaOf(r); {
	case isJSON(media):
		r.Header.Set(headerContentType, typeJSON)
		err = p.unary(answer, r, true)
	case media == typeProtobuf:
		err = p.unary(answer, r, false)
	default:
		err = problem.UnsupportedMediaType.New("The Content-Type must be application/json or application/protobuf.")
	}
	if err != nil || answer.refusal == 0 {
		return err
	}

	if err := httpserver.Refused(r.Context()); err != nil {
		return err
	}
	if answer.refusal >= http.StatusInternalServerError {
		return fmt.Errorf("connect answered %d", answer.refusal) // the request may have been carried out
	}
	return problem.InvalidJSON.New("The body is not a message that fits this request.")
}

// twirpAnswer drops Connect's error answers.
type twirpAnswer struct {
	http.ResponseWriter

	refusal int // the status; 0 for none
}

// WriteHeader implements http.ResponseWriter.
func (a *twirpAnswer) WriteHeader(status int) {
	if status == http.StatusOK {
		a.ResponseWriter.WriteHeader(status)
		return
	}
	a.refusal = status
}

// Write implements http.ResponseWriter.
func (a *twirpAnswer) Write(p []byte) (int, error) {
	if a.refusal != 0 {
		return len(p), nil
	}
	return a.ResponseWriter.Write(p)
}

// writeTwirp writes an error as version 7 of Twirp's specification defines it. Its meta has the code that the other
// services send in problem+json, the field at fault, and in seconds how long to wait before a repeat.
func writeTwirp(w http.ResponseWriter, p *problem.Error, traceID string) error {
	header := w.Header()
	p.SetHeaders(header)
	header.Set(headerContentType, typeJSON)

	meta := map[string]string{
		"reason": p.Kind().Code(), "trace_id": traceID, "field": p.Field(), "retry_after": header.Get("Retry-After"),
	}
	maps.DeleteFunc(meta, func(_, value string) bool { return value == "" })

	code, status := twirpCodeOf(p.Kind())
	body, _ := json.Marshal(map[string]any{"code": code, "msg": p.Detail(), "meta": meta}) // texts never fail
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, err := w.Write(body)
	return err
}

// twirpCodeOf returns Twirp's code of a kind and its status. They are Connect's code and the status of the other
// services, with these exceptions.
func twirpCodeOf(kind problem.Kind) (code string, status int) {
	switch kind {
	case problem.NotFound, problem.MethodNotAllowed, problem.UnsupportedMediaType:
		return "bad_route", http.StatusNotFound
	case problem.InvalidJSON:
		return "malformed", http.StatusBadRequest
	case problem.BodyTooLarge:
		return codeOf(kind).String(), http.StatusTooManyRequests
	case potFull:
		return codeOf(kind).String(), http.StatusPreconditionFailed
	}
	return codeOf(kind).String(), kind.Status()
}
