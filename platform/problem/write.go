package problem

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// ContentType is the media type of RFC 9457, section 3.
const ContentType = "application/problem+json"

// blank is the type of a problem that is identified by its code (RFC 9457, section 4.2.1).
const blank = "about:blank"

// Document is the JSON object that the client gets. A service whose answers have
// more members embeds it.
type Document struct {
	Type    string `json:"type"`
	Title   string `json:"title"`
	Status  int    `json:"status"`
	Detail  string `json:"detail"`
	Code    string `json:"code"`
	TraceID string `json:"trace_id,omitempty"`
	Field   string `json:"field,omitempty"`
}

// Document returns the JSON object of the error. It has no trace id if that is
// empty or the error is [Stored]. Encoding turns invalid UTF-8 into U+FFFD.
func (e *Error) Document(traceID string) Document {
	if e.stored {
		traceID = ""
	}
	return Document{
		Type:    blank,
		Title:   e.kind.title,
		Status:  e.kind.status,
		Detail:  e.detail,
		Code:    e.kind.code,
		TraceID: traceID,
		Field:   e.field,
	}
}

// SetHeaders sets the headers of the error in h: Retry-After in whole seconds,
// those of [Header], and Cache-Control: no-store, because caches may keep a 404
// or a 405 by default (RFC 9110, section 15.1). The Content-Type is left to the
// writer of the body.
func (e *Error) SetHeaders(h http.Header) {
	h.Set("Cache-Control", "no-store")
	if e.retryAfter > 0 {
		seconds := (e.retryAfter + time.Second - 1) / time.Second
		h.Set("Retry-After", strconv.FormatInt(int64(seconds), 10))
	}
	for key, values := range e.header {
		h[key] = append([]string(nil), values...)
	}
}

// Write answers a request with the error: its headers, its status and its
// [Document] as one line of JSON, without the cause. It returns the connection's
// error, after which nothing can be answered any more.
func Write(w http.ResponseWriter, e *Error, traceID string) error {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e.Document(traceID)); err != nil {
		return fmt.Errorf("problem: encode %s: %w", e.kind.code, err)
	}

	h := w.Header()
	e.SetHeaders(h)
	h.Set("Content-Type", ContentType)
	h.Set("Content-Length", strconv.Itoa(body.Len()))
	w.WriteHeader(e.kind.status)

	if _, err := w.Write(body.Bytes()); err != nil {
		return fmt.Errorf("problem: write %s: %w", e.kind.code, err)
	}
	return nil
}
