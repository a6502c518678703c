package httpapi

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"

	httpserver "github.com/rowlock/rowlock/platform/httpold"
	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
)

// source reads the items of a batch from the request's body.
//
//nolint:ireturn // one of two
func source(r *http.Request) (attempt.Source, error) {
	if len(r.Header["Content-Type"]) > 1 {
		return nil, problem.UnsupportedMediaType.New("The body has more than one Content-Type.")
	}
	if requestFormat(r) == inJSON {
		return &members{strings: httpserver.NewStrings(r, fieldItems, attempt.MaxBytes)}, nil
	}
	if err := httpserver.CheckEncoding(r.Header); err != nil {
		return nil, err
	}
	body := io.Reader(http.NoBody)
	if r.Body != nil {
		body = r.Body
	}
	return &lines{body: bufio.NewReaderSize(body, lineBuffer)}, nil
}

// lineBuffer is how much of a text is read at once. It is far longer than any item.
const lineBuffer = 16 << 10

// lines are the items of a text: each line that is not empty, without the carriage
// returns at its end.
type lines struct {
	body   *bufio.Reader
	number int // of the last line, blank ones counted
}

// Next implements attempt.Source.
func (s *lines) Next() ([]byte, error) {
	for {
		line, err := s.body.ReadSlice('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return nil, io.EOF
		}
		s.number++
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return nil, attempt.ErrTooLong
		case err != nil && !errors.Is(err, io.EOF):
			return nil, broken(err)
		}
		if item := bytes.TrimRight(line, "\r\n"); len(item) > 0 {
			return item, nil
		}
	}
}

// Place implements attempt.Source.
func (s *lines) Place() string { return fmt.Sprintf("line %d", s.number) }

// broken is the error of a body that ends before its end.
func broken(err error) error {
	if known, ok := errors.AsType[*problem.Error](err); ok {
		return known
	}
	return problem.InvalidField.New("The body did not arrive whole. Nothing was applied.", problem.Cause(err))
}

// members reads the items of {"items":["...", ...]}.
type members struct {
	strings *httpserver.Strings
	index   int // of the last item
}

// Next implements attempt.Source.
func (s *members) Next() ([]byte, error) {
	item, err := s.strings.Next()
	s.index = s.strings.Index()
	if long, ok := errors.AsType[*httpserver.LongStringError](err); ok {
		s.index = long.Index
		return nil, attempt.ErrTooLong
	}
	return item, err
}

// Place implements attempt.Source.
func (s *members) Place() string { return fmt.Sprintf("%s[%d]", fieldItems, s.index) }
