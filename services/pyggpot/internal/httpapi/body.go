package httpapi

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/rowlock/rowlock/platform/httpserver"
	"github.com/rowlock/rowlock/platform/problem"
)

// envelope is what gRPC puts before a message, in bytes: together they are within MAX_BODY.
const envelope = 5

const (
	headerContentType = "Content-Type"
	typeJSON          = "application/json"
	typeProto         = "application/proto"
	acceptPost        = "application/json, application/proto, application/grpc, application/grpc-web"
)

var errEmptyBody = errors.New("the body is empty; a JSON object is expected")

// rpc makes a route's handler of Connect's. What Connect would refuse without a
// word, or without a detail, is refused here: a media type that it does not know, a
// body that is too large or breaks off, JSON that is not the procedure's message.
// So the few bytes of a JSON request are decoded twice; request is its message,
// nil for a procedure that is not the contract's.
func rpc(h http.Handler, request protoreflect.MessageType) httpserver.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		media, _, _ := strings.Cut(r.Header.Get(headerContentType), ";")
		media = strings.ToLower(strings.TrimSpace(media))
		switch {
		case media == "" || media == typeJSON || strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json") &&
			!enveloped(media):
			r.Header.Set(headerContentType, typeJSON)
		case media == typeProto:
		case enveloped(media):
			h.ServeHTTP(w, r)
			return nil
		default:
			return problem.UnsupportedMediaType.New("The body must be of type application/json, or of a protocol of Connect or gRPC.",
				problem.Header("Accept-Post", acceptPost))
		}
		body, err := io.ReadAll(r.Body) // within MAX_BODY
		if tooLarge, ok := errors.AsType[*problem.Error](err); ok {
			return tooLarge
		}
		if err != nil {
			return problem.InvalidJSON.New("The body did not arrive whole.", problem.Cause(err))
		}
		if request != nil && r.Header.Get(headerContentType) == typeJSON && r.Header.Get("Content-Encoding") == "" {
			if err := (jsonCodec{}).Unmarshal(body, request.New().Interface()); err != nil {
				return notTheMessage(err)
			}
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		h.ServeHTTP(w, r)
		return nil
	}
}

// named finds the member that an error of protojson speaks of.
var named = regexp.MustCompile(`field "?([A-Za-z_][A-Za-z0-9_]*)`)

// capital is where protojson joins what the contract parts by an underscore.
var capital = regexp.MustCompile(`[A-Z]`)

// notTheMessage says what is wrong with a body of JSON. protojson's text begins
// with its name and a space that is one or the other kind, by the build, and names
// a field in camel case where its value is at fault.
func notTheMessage(err error) error {
	text := strings.ReplaceAll(err.Error(), "\u00a0", " ")
	text = "The body is not the JSON of this request: " + strings.TrimPrefix(text, "proto: ") + "."
	if match := named.FindStringSubmatch(text); match != nil {
		field := match[1]
		if !strings.Contains(text, "unknown field") { // which is as the client wrote it
			field = capital.ReplaceAllStringFunc(field, func(letter string) string { return "_" + strings.ToLower(letter) })
		}
		return problem.InvalidField.New(text, problem.Field(field), problem.Cause(err))
	}
	return problem.InvalidJSON.New(text, problem.Cause(err))
}

// enveloped tells whether a media type is one of a protocol that frames messages.
func enveloped(media string) bool {
	protocol, _, _ := strings.Cut(media, "+")
	switch protocol {
	case "application/grpc", "application/grpc-web":
		return true
	case "application/connect":
		return protocol != media
	}
	return false
}
