package httpold

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
)

// jsonWriter is an encoder with its buffer, to be used again.
type jsonWriter struct {
	buf bytes.Buffer
	enc *json.Encoder
}

//nolint:gochecknoglobals // a pool is a cache of memory, not state
var jsonWriters = sync.Pool{New: func() any {
	w := new(jsonWriter)
	w.enc = json.NewEncoder(&w.buf)
	w.enc.SetEscapeHTML(false) // it is not HTML, and <, > and & are to stay what they are
	return w
}}

// jsonType is the header's value, shared: nobody changes a header's value in place.
//
//nolint:gochecknoglobals // a constant that Go cannot spell
var jsonType = []string{"application/json"}

const (
	// keptBuffer is the largest buffer worth keeping.
	keptBuffer = 64 << 10
	// countedByNetHTTP is how much net/http gathers before it sends a header; it
	// adds the Content-Length of a shorter answer by itself.
	countedByNetHTTP = 2048
)

// WriteJSON answers v as one line of compact JSON. When v cannot be encoded
// nothing has been written and the error becomes INTERNAL.
func WriteJSON(w http.ResponseWriter, status int, v any) error {
	jw, ok := jsonWriters.Get().(*jsonWriter)
	if !ok {
		return fmt.Errorf("httpserver: the pool of encoders holds something else") //nolint:perfsprint // cannot be
	}
	defer func() {
		if jw.buf.Cap() <= keptBuffer {
			jsonWriters.Put(jw)
		}
	}()
	jw.buf.Reset()
	if err := jw.enc.Encode(v); err != nil {
		return fmt.Errorf("httpserver: encode the answer: %w", err)
	}
	h := w.Header()
	h["Content-Type"] = jsonType
	if jw.buf.Len() > countedByNetHTTP {
		h.Set("Content-Length", strconv.Itoa(jw.buf.Len()))
	}
	w.WriteHeader(status)
	if _, err := w.Write(jw.buf.Bytes()); err != nil {
		return fmt.Errorf("httpserver: write the answer: %w", err)
	}
	return nil
}
