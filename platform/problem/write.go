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

// Document is the JSON object that the client gets. A service whose answers
// carry more members embeds it in a struct of its own.
type Document struct {
	Type    string `json:"type"`
	Title   string `json:"title"`
	Status  int    `json:"status"`
	Detail  string `json:"detail"`
	Code    string `json:"code"`
	TraceID string `json:"trace_id,omitempty"`
	Field   string `json:"field,omitempty"`
}

// Document returns the JSON object of the error. The trace id is left out when
// it is empty, or when the error is [Stored]. Bytes that are not valid UTF-8 become U+FFFD when it is encoded.
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

// SetHeaders puts the headers of the error into h: Retry-After in whole
// seconds, those given by [Header], and Cache-Control: no-store, because a
// cache may otherwise keep a 404 or a 405 by its own judgement (RFC 9110,
// section 15.1). The Content-Type is set by the writer of the body.
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
// [Document] as one line of JSON. The cause is not part of it. The error that
// it returns is that of the connection; by then nothing can be answered any more.
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
