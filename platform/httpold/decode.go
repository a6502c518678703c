package httpold

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync"

	"github.com/rowlock/rowlock/platform/problem"
)

// DecodeOption changes what DecodeJSON accepts.
type DecodeOption func(*decodeOptions)

type decodeOptions struct {
	allowEmpty bool
}

// AllowEmpty accepts an absent or blank body and leaves dst as it is: for
// bodies whose every member has a default.
func AllowEmpty() DecodeOption { return func(o *decodeOptions) { o.allowEmpty = true } }

// body is memory to read a request's body into, to be used again.
type body struct {
	bytes   []byte
	scanner scanner
}

//nolint:gochecknoglobals // a pool is a cache of memory, not state
var bodies = sync.Pool{New: func() any { return new(body) }}

// DecodeJSON reads the body, one JSON object, into dst, a pointer to a struct.
// Its fields may be bool, string, integers of any width, structs, slices and
// pointers to any of these (a pointer tells an absent member from a zero one);
// the member's name is that of the tag json, or the field's. Other types are a
// mistake in the program and become INTERNAL. dst is undefined after an error.
//
// It is stricter than encoding/json, because a number that is silently not what
// the client meant is worse than a refusal:
//
//   - 415 UNSUPPORTED_MEDIA_TYPE: a Content-Type that is neither application/json
//     nor of a +json type (parameters are ignored), or a Content-Encoding.
//   - 413 BODY_TOO_LARGE: above Config.MaxBody.
//   - 400 INVALID_JSON: not one JSON object (RFC 8259) and nothing else: a syntax
//     error anywhere, trailing data, invalid UTF-8, a lone surrogate, nesting
//     beyond 32 levels.
//   - 400 INVALID_FIELD, with the first member at fault: one that does not exist
//     (names are compared exactly), is there twice or has a wrong type. null is
//     a wrong type. An integer is digits, 1e3 and 1.0 are not, and it must fit.
func DecodeJSON(r *http.Request, dst any, opts ...DecodeOption) error {
	var o decodeOptions
	for _, opt := range opts {
		opt(&o)
	}
	if err := checkMediaType(r.Header); err != nil {
		return err
	}
	target := reflect.ValueOf(dst)
	if target.Kind() != reflect.Pointer || target.IsNil() || target.Elem().Kind() != reflect.Struct {
		return fmt.Errorf("httpserver: DecodeJSON into %T, which is no pointer to a struct", dst)
	}
	plan, err := planOf(target.Type().Elem())
	if err != nil {
		return err
	}
	if r.Body == nil || r.Body == http.NoBody {
		return emptyBody(o)
	}

	b, ok := bodies.Get().(*body)
	if !ok {
		return errors.New("httpserver: the pool of bodies holds something else")
	}
	defer func() {
		if cap(b.bytes) <= keptBuffer {
			b.scanner.data = nil
			bodies.Put(b)
		}
	}()
	b.bytes, err = readAll(r.Body, r.ContentLength, b.bytes[:0])
	if err != nil {
		if tooLarge, ok := errors.AsType[*problem.Error](err); ok {
			return tooLarge
		}
		return problem.InvalidJSON.New("The body did not arrive whole.", problem.Cause(err))
	}
	b.scanner.reset(b.bytes)
	if b.scanner.atEnd() {
		return emptyBody(o)
	}
	return b.scanner.document(plan, target.Elem())
}

func emptyBody(o decodeOptions) error {
	if o.allowEmpty {
		return nil
	}
	return problem.InvalidJSON.New("The body is empty; a JSON object is expected.")
}

// checkMediaType accepts what DecodeJSON says it does.
func checkMediaType(h http.Header) error {
	if err := CheckEncoding(h); err != nil {
		return err
	}
	if types := h["Content-Type"]; len(types) == 0 || len(types) == 1 && types[0] == "" || IsJSON(h) {
		return nil
	}
	return problem.UnsupportedMediaType.New("The body must be of type application/json.", problem.Header("Accept", "application/json"))
}

// CheckEncoding refuses a compressed body with 415 UNSUPPORTED_MEDIA_TYPE: for
// handlers that read a body by another way than DecodeJSON.
func CheckEncoding(h http.Header) error {
	if encoding := h["Content-Encoding"]; len(encoding) > 0 && !strings.EqualFold(encoding[0], "identity") {
		return problem.UnsupportedMediaType.New("The body must not be compressed.", problem.Header("Accept-Encoding", "identity"))
	}
	return nil
}

// IsJSON tells whether the Content-Type is application/json or a +json type;
// parameters are ignored.
func IsJSON(h http.Header) bool {
	types := h["Content-Type"]
	if len(types) != 1 {
		return false
	}
	if types[0] == "application/json" {
		return true
	}
	media, _, _ := strings.Cut(types[0], ";")
	media = strings.ToLower(strings.TrimSpace(media))
	kind, subtype, _ := strings.Cut(media, "/")
	return media == "application/json" || kind != "" && len(subtype) > len("+json") && strings.HasSuffix(subtype, "+json")
}
