package httpserver

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/labstack/echo/v4"

	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/platform/strictjson"
)

// buffers holds memory for bodies.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// unknownLength is the size up to which net/http computes the Content-Length of an answer; it sends a longer answer
// without one in chunks.
const unknownLength = 2 << 10

// keptBuffer is the largest buffer worth keeping.
const keptBuffer = 64 << 10

// withBuffer calls use with an empty buffer. The buffer must not be used afterwards.
func withBuffer(use func(*bytes.Buffer) error) error {
	buf, _ := buffers.Get().(*bytes.Buffer) // it holds nothing else
	defer func() {
		if buf.Cap() <= keptBuffer {
			buffers.Put(buf)
		}
	}()
	buf.Reset()
	return use(buf)
}

// binder is echo's Binder: c.Bind reads the body, and nothing else of the request.
type binder struct{}

// Bind reads the body, one JSON object, into dst like strictjson.Unmarshal. An absent or blank body counts as an empty
// object. Besides the errors of strictjson it returns 415 UNSUPPORTED_MEDIA_TYPE for a Content-Type that is neither
// JSON nor absent, and for a Content-Encoding.
func (binder) Bind(dst any, c echo.Context) error {
	r := c.Request()
	if err := checkMediaType(r.Header); err != nil {
		return err
	}
	if r.Body == nil || r.Body == http.NoBody {
		return strictjson.Empty(dst)
	}
	return withBuffer(func(body *bytes.Buffer) error {
		if r.ContentLength > 0 { // at most MAX_BODY
			body.Grow(int(r.ContentLength) + bytes.MinRead)
		}
		if _, err := body.ReadFrom(r.Body); err != nil {
			return BodyError(err)
		}
		if strictjson.Blank(body.Bytes()) {
			return strictjson.Empty(dst)
		}
		return strictjson.Unmarshal(body.Bytes(), dst)
	})
}

// BodyError returns the answer to a failed read of the body: err if that is an answer, such as 413, else INVALID_JSON.
// Its text omits the connection's error, which names addresses.
func BodyError(err error) error {
	if _, ok := errors.AsType[*problem.Error](err); ok {
		return err
	}
	if _, ok := errors.AsType[*echo.HTTPError](err); ok {
		return err
	}
	return problem.InvalidJSON.New("The body did not arrive completely.", problem.Cause(err))
}

// serializer is echo's JSONSerializer: c.JSON answers compact JSON and a line break. If the value cannot be encoded,
// nothing is written.
type serializer struct{}

// Serialize writes v to c's answer. It ignores the indent, which clients request with the parameter pretty.
func (serializer) Serialize(c echo.Context, v any, _ string) error {
	return withBuffer(func(body *bytes.Buffer) error {
		if err := strictjson.Write(body, v); err != nil {
			return err
		}
		body.WriteByte('\n')
		if body.Len() > unknownLength {
			c.Response().Header().Set(echo.HeaderContentLength, strconv.Itoa(body.Len()))
		}
		if _, err := c.Response().Write(body.Bytes()); err != nil {
			return fmt.Errorf("httpserver: write the answer: %w", err)
		}
		return nil
	})
}

// Deserialize reads the body of c into dst.
func (serializer) Deserialize(c echo.Context, dst any) error { return binder{}.Bind(dst, c) }

// checkMediaType returns 415 if the body is compressed, or if the Content-Type is neither JSON nor absent.
func checkMediaType(h http.Header) error {
	if err := CheckEncoding(h); err != nil {
		return err
	}
	if types := h["Content-Type"]; len(types) == 0 || len(types) == 1 && types[0] == "" || IsJSON(h) {
		return nil
	}
	return problem.UnsupportedMediaType.New("The body must be of type application/json.",
		problem.Header("Accept", "application/json"))
}

// CheckEncoding returns 415 for a compressed body, for handlers that read a body without c.Bind.
func CheckEncoding(h http.Header) error {
	if encoding := h["Content-Encoding"]; len(encoding) > 0 && !strings.EqualFold(encoding[0], "identity") {
		return problem.UnsupportedMediaType.New("The body must not be compressed.",
			problem.Header("Accept-Encoding", "identity"))
	}
	return nil
}

// IsJSON reports whether the Content-Type is application/json or a +json type; parameters are ignored.
func IsJSON(h http.Header) bool {
	types := h["Content-Type"]
	if len(types) != 1 {
		return false
	}
	media, _, _ := strings.Cut(types[0], ";")
	media = strings.ToLower(strings.TrimSpace(media))
	kind, subtype, _ := strings.Cut(media, "/")
	return media == "application/json" || kind != "" && len(subtype) > len("+json") && strings.HasSuffix(subtype, "+json")
}
