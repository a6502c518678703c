package httpapi

import (
	"bufio"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/rowlock/rowlock/platform/strictjson"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
)

const (
	// chunk is the number of bytes of an answer that are encoded at a time.
	chunk = 32 << 10
	// shortText is the largest text, in bytes, whose JSON is encoded in memory: it needs no budget. A longer text is
	// encoded twice without being held, the first time only for its length.
	shortText = 1 << 20
)

// pageDocument is the contract's Page.
type pageDocument struct {
	Entries any `json:"listentries"`
}

// leaseDocument is the contract's Changed for a claim.
type leaseDocument struct {
	Claim   attempt.Claim `json:"claim"`
	Until   time.Time     `json:"lease_until"`
	Entries any           `json:"listentries"`
}

// arrayOf returns a value that is encoded as an array of the contract's Entry. For a short text it is a slice, which is
// faster.
func arrayOf(entries attempt.Entries) any {
	array := func(yield func(Entry) bool) {
		for e := range entries.All() {
			if !yield(Entry{string(e.Item), e.Attempts}) {
				return
			}
		}
	}
	if len(entries.Lines()) > shortText {
		return strictjson.Array[Entry](array)
	}
	return slices.AppendSeq(make([]Entry, 0, entries.Len()), array)
}

// writeLines writes lines with a line break after the last.
func writeLines(c echo.Context, lines string) error {
	if lines == "" {
		return writeText(c, http.StatusOK, nil)
	}
	return stream(c, textPlain, len(lines)+1, func(w *bufio.Writer) error {
		_, err := w.WriteString(lines)
		return err
	})
}

// writeDocument writes a document in JSON whose text has this size.
func writeDocument(c echo.Context, size int, document any) error {
	if size <= shortText {
		return c.JSON(http.StatusOK, document)
	}
	var length counter
	if err := strictjson.Write(&length, document); err != nil {
		return err
	}
	return stream(c, echo.MIMEApplicationJSON, int(length)+1, func(w *bufio.Writer) error {
		return strictjson.Write(w, document)
	})
}

// stream writes an answer of a known length while it is encoded, with a line break at its end. The length tells a
// client when it got only a part.
func stream(c echo.Context, contentType string, length int, write func(*bufio.Writer) error) error {
	h := c.Response().Header()
	h.Set(echo.HeaderContentType, contentType)
	h.Set(echo.HeaderContentLength, strconv.Itoa(length))
	c.Response().WriteHeader(http.StatusOK)

	w := bufio.NewWriterSize(c.Response(), min(length, chunk))
	err := write(w)
	if err == nil {
		_ = w.WriteByte('\n') // Flush returns its error
		err = w.Flush()
	}
	if err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	return nil
}

// counter counts what is written to it.
type counter int

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
