// Package call sends the requests of the generated clients, and turns the services'
// answers into values and errors.
package call

import (
	"bytes"
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
	"unicode"

	rowlock "github.com/rowlock/rowlock/client"
	"github.com/rowlock/rowlock/client/internal/settings"
)

// Settings returns the default settings, modified by the options. The HTTP client
// follows no redirects: one would turn a change into a read, and take the token to
// another host.
func Settings(options []rowlock.Option) settings.Settings {
	s := settings.Default()
	for _, option := range options {
		option(&s)
	}

	direct := *s.HTTP
	direct.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	direct.Transport = headers{next: direct.Transport, agent: agent(), token: s.Token}
	s.HTTP = &direct
	return s
}

const keyHeader = "Idempotency-Key"

type sentKey struct{}

// Sent returns a context whose calls set at to the time of their last attempt.
func Sent(ctx context.Context, at *time.Time) context.Context {
	return context.WithValue(ctx, sentKey{}, at)
}

// Doer sends the requests of the generated clients.
type Doer struct{ settings.Settings }

// Do sends a request, and repeats it as [Repeat] does. It returns an answer of
// status 2xx with its whole body, or an error, with the answer if there was one.
func (d Doer) Do(req *http.Request) (*http.Response, error) {
	key := req.Header.Get(keyHeader) != ""
	if strings.ContainsFunc(req.Header.Get(keyHeader), unicode.IsControl) { // net/http refuses to send it
		const detail = "A key must not contain control characters."
		return nil, &rowlock.Error{Code: rowlock.ErrInvalidField, Field: keyHeader, Detail: detail}
	}

	name := req.Method + " " + req.URL.EscapedPath()
	return Repeat(req.Context(), d.Settings, name, key, func() (*http.Response, error) {
		once, err := again(req, key)
		if err != nil {
			return nil, Lost(err, reads(req))
		}

		if at, ok := req.Context().Value(sentKey{}).(*time.Time); ok {
			*at = time.Now()
		}

		resp, err := d.HTTP.Do(once)
		if err != nil {
			return nil, Lost(err, reads(req))
		}
		return whole(resp, reads(req))
	})
}

// again returns a copy of req that can be sent, with a fresh body. A request with a
// key cannot be sent twice: net/http would repeat it, and the error of the second
// attempt would hide that the first was sent.
func again(req *http.Request, key bool) (*http.Request, error) {
	once := req.Clone(req.Context())
	switch {
	case req.GetBody != nil:
		body, err := req.GetBody()
		if err != nil {
			return nil, err
		}
		once.Body = body
	case key: // net/http would repeat a request without a body too
		const empty = "{}"
		once.Body, once.ContentLength = io.NopCloser(strings.NewReader(empty)), int64(len(empty))
	}

	if key {
		once.GetBody = nil
	}
	return once, nil
}

// reads reports whether a request changes nothing.
func reads(req *http.Request) bool {
	return req.Method == http.MethodGet || req.Method == http.MethodHead
}

// whole reads the body of an answer. It returns an error if the body breaks off or the status is not 2xx.
func whole(resp *http.Response, read bool) (*http.Response, error) {
	body, err := io.ReadAll(resp.Body)
	err = errors.Join(err, resp.Body.Close())
	if err != nil {
		e := Lost(err, read)
		e.Status = resp.StatusCode
		return nil, e
	}
	if resp.StatusCode >= http.StatusMultipleChoices || resp.StatusCode < http.StatusOK {
		return resp, problem(resp, body, read)
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

// Answer returns the value of an answer of [Doer.Do].
func Answer[T any](resp *http.Response, err error) (T, error) {
	value, _, err := AnswerWithHeader[T](resp, err)
	return value, err
}

// None is the type of an answer without a body.
type None struct{}

// AnswerWithHeader also returns the header of the answer; nil if there was none.
func AnswerWithHeader[T any](resp *http.Response, err error) (value T, header http.Header, _ error) {
	if resp != nil {
		header = resp.Header
	}
	if _, none := any(value).(None); none || err != nil {
		return value, header, err
	}

	body, err := io.ReadAll(resp.Body)
	if err == nil {
		err = json.Unmarshal(body, &value)
	}
	if err != nil {
		return value, nil, &rowlock.Error{
			Code: rowlock.ErrBadAnswer, Status: resp.StatusCode, Detail: "the answer cannot be read: " + shorten(body),
			Read: reads(resp.Request), Err: err,
		}
	}
	return value, header, nil
}

// Lost returns the error of a request without an answer. Nothing was sent only if the
// connection could not be made or the token could not be read.
func Lost(err error, read bool) *rowlock.Error {
	if e, ok := errors.AsType[*rowlock.Error](err); ok {
		unsent := *e
		unsent.Read = read
		return &unsent
	}
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

	e := &rowlock.Error{Status: resp.StatusCode, Read: read}
	if err := json.Unmarshal(body, &doc); err != nil || doc.Code == "" {
		e.Code, e.Detail, e.Err = rowlock.ErrBadAnswer, "the answer is not a problem document: "+shorten(body), err
	} else {
		e.Code, e.Field, e.Detail, e.TraceID = doc.Code, doc.Field, doc.Detail, doc.TraceID
	}

	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil {
		e.RetryAfter = time.Duration(seconds) * time.Second
	}
	return e
}

// Value returns the value that p points to; the zero value for nil.
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

// Key returns the value of the header Idempotency-Key for a key. A key that begins
// with a quote, or begins or ends with a space, would be read as another key; it
// becomes a quoted string of RFC 9651. All other keys stay bare.
func Key(key string) string {
	if key == strings.Trim(key, " ") && !strings.HasPrefix(key, `"`) {
		return key
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
}

// mark precedes a segment of dots, and a segment that begins with mark, until Dots removes it.
const mark = "\x00"

// Segment returns one segment of a path for the generated requests, which would
// resolve the segments "." and "..".
func Segment(s string) string {
	if s == "." || s == ".." || strings.HasPrefix(s, mark) {
		return mark + s
	}
	return s
}

// Dots escapes the dots of the segments that Segment has marked.
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
