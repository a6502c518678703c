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
	"google.golang.org/protobuf/reflect/protoreflect"

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

var errEmptyBody = errors.New("the body is empty; a JSON object is expected")

// procedure is one that a route serves.
type procedure struct {
	handler http.Handler
	// request is its message; nil where it is not the contract's.
	request protoreflect.MessageType
	// stream says that it takes framed messages alone.
	stream  bool
	maxBody int64
}

// serve is the route's handler. It refuses with a sentence what Connect refuses without one: a media type that is not
// known, a body that is too large or breaks off, JSON that is not the procedure's message. So a JSON request, which is
// short, is decoded twice.
func (p procedure) serve(c echo.Context) error {
	w, r := c.Response(), c.Request()
	media, _, _ := strings.Cut(r.Header.Get(headerContentType), ";")
	media = strings.ToLower(strings.TrimSpace(media))
	switch {
	case p.framed(media):
		r.Body = framedBody{r.Body, r.Context()}
		p.handler.ServeHTTP(w, r)
		return nil
	case p.stream:
	case media == "" || media == typeJSON || isJSON(media):
		r.Header.Set(headerContentType, typeJSON)
		return p.unary(w, r, p.request != nil)
	case media == typeProto:
		return p.unary(w, r, false)
	}
	return problem.UnsupportedMediaType.New("The body must be of type application/json, or of a protocol of Connect or gRPC.",
		problem.Header("Accept-Post", acceptPost))
}

// unary serves a request whose body is one message.
func (p procedure) unary(w http.ResponseWriter, r *http.Request, checked bool) error {
	body, err := readBody(r, p.maxBody)
	if err != nil {
		return err
	}
	if checked {
		if err := (jsonCodec{}).Unmarshal(body, p.request.New().Interface()); err != nil {
			return notTheMessage(err)
		}
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	p.handler.ServeHTTP(w, r)
	return nil
}

// readBody reads all of a body, which is within MAX_BODY as it is sent, and as it
// is when it is no longer compressed.
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
		return nil, problem.UnsupportedMediaType.New("The body may be compressed by gzip only.", problem.Header("Accept-Encoding", "gzip"))
	}
	r.Header.Del(headerContentEncoding)
	body, err := io.ReadAll(reader)
	if err != nil {
		return nil, httpserver.BodyError(err)
	}
	if int64(len(body)) > maxBody {
		return nil, problem.BodyTooLarge.New("The body is larger than MAX_BODY when it is unpacked.")
	}
	return body, nil
}

// framedBody is a body that Connect reads; its errors become Connect's errors.
type framedBody struct {
	io.ReadCloser

	ctx context.Context //nolint:containedctx // the request's, for its log
}

// Read reads the body.
func (b framedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = connectError(httpserver.Refuse(b.ctx, httpserver.BodyError(err)))
	}
	return n, err
}

// fault finds what an error of protojson speaks of, before any of the client's text.
var fault = regexp.MustCompile(`^proto:.\(line \d+:\d+\): (unknown field|duplicate field|invalid value for \w+ field) "?(\w{1,64})`)

// capital is where protojson joins what the contract parts by an underscore.
var capital = regexp.MustCompile(`[A-Z]`)

// notTheMessage says what is wrong with a body of JSON, without its values.
// protojson's text has a space that is one or the other kind, by the build, and
// names a field in camel case where its value is at fault.
func notTheMessage(err error) error {
	found := fault.FindStringSubmatch(err.Error())
	cause := problem.Cause(err)
	switch {
	case found == nil:
		return problem.InvalidJSON.New("The body is not a JSON object that fits this request.", cause)
	case found[1] == "unknown field":
		return problem.InvalidField.New("This request has no member "+found[2]+".", problem.Field(found[2]), cause)
	case found[1] == "duplicate field":
		return problem.InvalidField.New("The member "+found[2]+" is there twice.", problem.Field(found[2]), cause)
	}
	name := capital.ReplaceAllStringFunc(found[2], func(letter string) string { return "_" + strings.ToLower(letter) })
	return problem.InvalidField.New("The value of "+name+" does not fit.", problem.Field(name), cause)
}

func isJSON(media string) bool {
	return strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json") &&
		!strings.HasPrefix(media, "application/grpc") && !strings.HasPrefix(media, "application/connect")
}

// framed tells whether a media type is one of a protocol that frames messages, and
// that the procedure is served in.
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
