// Package call reads the answers of the services into values and errors.
package call

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	rowlock "github.com/rowlock/rowlock/client"
	"github.com/rowlock/rowlock/client/internal/settings"
)

// Settings returns the default settings, changed by the options. Their HTTP
// client follows no redirection, which would make a read of a change.
func Settings(options []rowlock.Option) settings.Settings {
	s := settings.Default()
	for _, option := range options {
		option(&s)
	}
	direct := *s.HTTP
	direct.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	s.HTTP = &direct
	return s
}

// Read returns the answer to a request that only reads.
func Read[T any](resp *http.Response, err error) (T, error) {
	value, _, err := answer[T](resp, err, true)
	return value, err
}

// ReadWithHeader returns the header of the answer as well.
func ReadWithHeader[T any](resp *http.Response, err error) (T, http.Header, error) {
	return answer[T](resp, err, true)
}

// Change returns the answer to a request that changes something.
func Change[T any](resp *http.Response, err error) (T, error) {
	value, _, err := answer[T](resp, err, false)
	return value, err
}

// ChangeWithHeader returns the header of the answer as well.
func ChangeWithHeader[T any](resp *http.Response, err error) (T, http.Header, error) {
	return answer[T](resp, err, false)
}

// None is the type of an answer without a body.
type None struct{}

func answer[T any](resp *http.Response, err error, read bool) (value T, header http.Header, _ error) {
	if err != nil {
		return value, nil, Lost(err, read)
	}
	body, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		e := Lost(err, read)
		e.Status = resp.StatusCode
		return value, nil, e
	}
	if resp.StatusCode >= http.StatusMultipleChoices || resp.StatusCode < http.StatusOK {
		return value, resp.Header, problem(resp, body, read)
	}
	if _, none := any(value).(None); none {
		return value, resp.Header, nil
	}
	if err := json.Unmarshal(body, &value); err != nil {
		detail := "the answer cannot be read: " + shorten(body)
		return value, nil, &rowlock.Error{
			Code: rowlock.ErrBadAnswer, Status: resp.StatusCode, Detail: detail, Read: read, Err: err,
		}
	}
	return value, resp.Header, nil
}

// Lost returns the error of a request without an answer. Only a connection that
// could not be made is proof that nothing was sent.
func Lost(err error, read bool) *rowlock.Error {
	code := rowlock.ErrAnswerLost
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		code = rowlock.ErrUnreachable
	}
	return &rowlock.Error{Code: code, Detail: err.Error(), Read: read, Err: err}
}

// problem reads a problem document.
func problem(resp *http.Response, body []byte, read bool) *rowlock.Error {
	var doc struct {
		Code    rowlock.Code `json:"code"`
		Detail  string       `json:"detail"`
		Field   string       `json:"field"`
		TraceID string       `json:"trace_id"`
	}
	if err := json.Unmarshal(body, &doc); err != nil || doc.Code == "" {
		detail := "the answer is no problem document: " + shorten(body)
		return &rowlock.Error{Code: rowlock.ErrBadAnswer, Status: resp.StatusCode, Detail: detail, Read: read, Err: err}
	}
	e := &rowlock.Error{
		Code: doc.Code, Status: resp.StatusCode, Field: doc.Field, Detail: doc.Detail, TraceID: doc.TraceID, Read: read,
	}
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil {
		e.RetryAfter = time.Duration(seconds) * time.Second
	}
	return e
}

// Value returns what p points to, and the zero value for nil.
func Value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// shorten returns at most the first 200 bytes.
func shorten(body []byte) string {
	const most = 200
	return strings.ToValidUTF8(string(body[:min(len(body), most)]), "")
}

// Key returns the value of the header Idempotency-Key for a key: a quoted string
// of RFC 9651 for one that begins with a quote, or begins or ends with a space,
// because it would be read as another key. The bare form serves for all others.
func Key(key string) string {
	if key == strings.Trim(key, " ") && !strings.HasPrefix(key, `"`) {
		return key
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
}

// mark stands before a segment of dots, and before one that begins with it, until Dots removes it.
const mark = "\x00"

// Segment returns one segment of a path as the generated requests take it. They
// would resolve the segments "." and "..".
func Segment(s string) string {
	if s == "." || s == ".." || strings.HasPrefix(s, mark) {
		return mark + s
	}
	return s
}

// Dots escapes the dots of the segments that Segment marked.
func Dots(_ context.Context, req *http.Request) error {
	if !strings.Contains(req.URL.Path, "/"+mark) {
		return nil
	}
	segments := strings.Split(req.URL.EscapedPath(), "/")
	for i, segment := range segments {
		if rest, marked := strings.CutPrefix(segment, "%00"); marked {
			segments[i] = strings.ReplaceAll(rest, ".", "%2E")
		}
	}
	raw := strings.Join(segments, "/")
	decoded, err := url.PathUnescape(raw)
	if err != nil {
		return fmt.Errorf("escape the path of a request: %w", err)
	}
	req.URL.Path, req.URL.RawPath = decoded, raw
	return nil
}

// Once keeps net/http from repeating a request that has a key: the error of the
// second attempt would hide that the first was sent.
func Once(_ context.Context, req *http.Request) error {
	req.GetBody = nil
	return nil
}
