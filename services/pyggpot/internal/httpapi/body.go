package httpapi

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"

	"github.com/labstack/echo/v4"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/rowlock/rowlock/platform/httpserver"
	"github.com/rowlock/rowlock/platform/problem"
)

const (
	headerContentType     = "Content-Type"
	headerContentEncoding = "Content-Encoding"
	typeJSON              = "application/json"
	typeProto             = "application/proto"
	acceptPost            = "application/json, application/proto, application/grpc, application/grpc-web"
)

// procedure serves the requests of a route.
type procedure struct {
	handler http.Handler
	// request is an empty message of its type; nil for procedures outside of the contract.
	request proto.Message
	// stream says that it takes only framed messages.
	stream  bool
	maxBody int64
}

// serve handles a request of the route. It adds a sentence to what Connect refuses without one: an unknown media type,
// a body that is too large or incomplete, JSON that does not fit the procedure's message.
func (p procedure) serve(c echo.Context) error {
	w, r := c.Response(), c.Request()

	switch media := mediaOf(r); {
	case p.framed(media):
		r.Body = framedBody{r.Body, r.Context()}
		p.handler.ServeHTTP(w, r)
		return nil
	case p.stream:
	case isJSON(media):
		r.Header.Set(headerContentType, typeJSON)
		return p.unary(w, r, p.request != nil)
	case media == typeProto:
		return p.unary(w, r, false)
	}
	return problem.UnsupportedMediaType.New(
		"The Content-Type must be application/json, or a type of Connect or gRPC.",
		problem.Header("Accept-Post", acceptPost))
}

// unary serves a request whose body is one message. It decodes JSON, so that Connect need not decode it again.
func (p procedure) unary(w http.ResponseWriter, r *http.Request, inJSON bool) error {
	body, err := readBody(r, p.maxBody)
	if err != nil {
		return err
	}
	if inJSON {
		message := p.request.ProtoReflect().New().Interface()
		if err := protojson.Unmarshal(body, message); err != nil {
			return invalidJSON(err)
		}
		body, err = proto.MarshalOptions{}.MarshalAppend([]byte{decoded}, message)
		if err != nil {
			return invalidJSON(err)
		}
	}

	r.Body = io.NopCloser(bytes.NewReader(body))
	p.handler.ServeHTTP(w, r)
	return nil
}

// readBody returns the whole body, decompressed. It has at most maxBody bytes before and after that.
func readBody(r *http.Request, maxBody int64) ([]byte, error) {
	reader := io.Reader(r.Body)
	switch encoding := r.Header.Get(headerContentEncoding); encoding {
	case "", "identity":
	case "gzip":
		unzipped, err := gzip.NewReader(r.Body)
		if err != nil {
			return nil, httpserver.BodyError(err)
		}
		reader = io.LimitReader(unzipped, maxBody+1)
	default:
		return nil, problem.UnsupportedMediaType.New("The body may be compressed only by gzip.",
			problem.Header("Accept-Encoding", "gzip"))
	}

	r.Header.Del(headerContentEncoding)
	body, err := io.ReadAll(reader)
	if err != nil {
		return nil, httpserver.BodyError(err)
	}
	if int64(len(body)) > maxBody {
		return nil, problem.BodyTooLarge.New("The body is larger than MAX_BODY when it is decompressed.")
	}
	return body, nil
}

// framedBody wraps a body that Connect reads. Its errors are Connect's errors.
type framedBody struct {
	io.ReadCloser

	ctx context.Context
}

// Read reads the body.
func (b framedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = connectError(httpserver.Refuse(b.ctx, httpserver.BodyError(err)))
	}
	return n, err
}

// fault matches the kind and the field in an error of protojson, which precede the client's text.
var fault = regexp.MustCompile(
	`^proto:.\(line \d+:\d+\): (unknown field|duplicate field|invalid value for \w+ field) "?(\w{1,64})`)

// capital matches a capital letter in protojson's names, where the contract has an underscore.
var capital = regexp.MustCompile(`[A-Z]`)

// invalidJSON returns the problem for a body that protojson refuses, without the body's values. The spaces in
// protojson's text depend on the build, and the name of a field with a wrong value is in camel case.
func invalidJSON(err error) error {
	found := fault.FindStringSubmatch(err.Error())
	cause := problem.Cause(err)
	switch {
	case found == nil:
		return problem.InvalidJSON.New("The body is not a JSON object that fits this request.", cause)
	case found[1] == "unknown field":
		return problem.InvalidField.New("This request has no member "+found[2]+".", problem.Field(found[2]), cause)
	case found[1] == "duplicate field":
		return problem.InvalidField.New("The member "+found[2]+" occurs twice.", problem.Field(found[2]), cause)
	}
	name := capital.ReplaceAllStringFunc(found[2], func(letter string) string { return "_" + strings.ToLower(letter) })
	return problem.InvalidField.New("The value of "+name+" does not fit.", problem.Field(name), cause)
}

// mediaOf returns the media type of a request, without parameters; empty if it has none.
func mediaOf(r *http.Request) string {
	media, _, _ := strings.Cut(r.Header.Get(headerContentType), ";")
	return strings.ToLower(strings.TrimSpace(media))
}

// isJSON reports whether a media type is missing, JSON's, or has the suffix +json and does not belong to a protocol
// that frames messages.
func isJSON(media string) bool {
	return media == "" || media == typeJSON ||
		strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json") &&
			!strings.HasPrefix(media, "application/grpc") && !strings.HasPrefix(media, "application/connect")
}

// framed reports whether a media type belongs to a protocol that frames messages and serves the procedure.
func (p procedure) framed(media string) bool {
	switch media {
	case "application/grpc", "application/grpc+proto", "application/grpc+json",
		"application/grpc-web", "application/grpc-web+proto", "application/grpc-web+json":
		return true
	case "application/connect+proto", "application/connect+json":
		return p.stream
	}
	return false
}
