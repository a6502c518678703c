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
func source(r *http.Request, list attempt.List) (attempt.Source, error) {
	if len(r.Header["Content-Type"]) > 1 {
		return nil, problem.UnsupportedMediaType.New("The body has more than one Content-Type.")
	}
	if requestFormat(r) == inJSON {
		return &members{list: list, strings: httpserver.NewStrings(r, fieldItems, attempt.MaxBytes)}, nil
	}
	if err := httpserver.CheckEncoding(r.Header); err != nil {
		return nil, err
	}
	body := io.Reader(http.NoBody)
	if r.Body != nil {
		body = r.Body
	}
	return &lines{list: list, body: bufio.NewReaderSize(body, lineBuffer)}, nil
}

// lineBuffer is how much of a text is read at once. It is far longer than any item.
const lineBuffer = 16 << 10

// lines are the items of a text: each line that is not empty, without the carriage
// returns at its end.
type lines struct {
	list   attempt.List
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
			return nil, s.fault(attempt.ErrTooLong)
		case err != nil && !errors.Is(err, io.EOF):
			return nil, broken(err)
		}
		item := bytes.TrimRight(line, "\r\n")
		if len(item) == 0 {
			continue
		}
		if err := attempt.CheckItem(s.list, item); err != nil {
			return nil, s.fault(err)
		}
		return item, nil
	}
}

func (s *lines) fault(err error) error {
	return &attempt.PlaceError{Place: fmt.Sprintf("line %d", s.number), Err: err}
}

// broken is the error of a body that ends before its end.
func broken(err error) error {
	if known, ok := errors.AsType[*problem.Error](err); ok {
		return known
	}
	return problem.InvalidField.New("The body did not arrive whole. Nothing was applied.", problem.Cause(err))
}

// members are the items of {"items":["...", ...]}.
type members struct {
	list    attempt.List
	strings *httpserver.Strings
}

// Next implements attempt.Source.
func (s *members) Next() ([]byte, error) {
	item, err := s.strings.Next()
	if long, ok := errors.AsType[*httpserver.LongStringError](err); ok {
		return nil, place(long.Index, attempt.ErrTooLong)
	}
	if err != nil {
		return nil, err
	}
	if err := attempt.CheckItem(s.list, item); err != nil {
		return nil, place(s.strings.Index(), err)
	}
	return item, nil
}

func place(index int, err error) error {
	return &attempt.PlaceError{Place: fmt.Sprintf("%s[%d]", fieldItems, index), Err: err}
}
