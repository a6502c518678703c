package httpapi

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/rowlock/rowlock/platform/httpserver"
	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/platform/strictjson"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
)

// source returns the items of a request's body: as JSON if the Content-Type is JSON, whatever its parameters, otherwise
// as lines. curl -d sends lines as application/x-www-form-urlencoded.
func source(r *http.Request) (attempt.Source, error) {
	if len(r.Header["Content-Type"]) > 1 {
		return nil, problem.UnsupportedMediaType.New("The body has more than one Content-Type.")
	}
	if err := httpserver.CheckEncoding(r.Header); err != nil {
		return nil, err
	}
	body := bufio.NewReaderSize(r.Body, lineBuffer)
	if err := skipByteOrderMark(body); err != nil {
		return nil, err
	}
	if httpserver.IsJSON(r.Header) {
		return &members{strings: strictjson.NewStrings(body, fieldItems, attempt.MaxBytes)}, nil
	}
	return &lines{body: body}, nil
}

// skipByteOrderMark skips the mark with which Windows begins a file in UTF-8, and refuses a body in UTF-16. An error of
// the body comes again when it is read.
func skipByteOrderMark(body *bufio.Reader) error {
	const utf8Mark, bigEndian, littleEndian = "\xEF\xBB\xBF", "\xFE\xFF", "\xFF\xFE"
	begin, _ := body.Peek(len(utf8Mark))
	switch {
	case string(begin) == utf8Mark:
		_, _ = body.Discard(len(utf8Mark)) // it is in the buffer
	case bytes.HasPrefix(begin, []byte(bigEndian)), bytes.HasPrefix(begin, []byte(littleEndian)):
		return problem.InvalidField.New("The body is in UTF-16; send UTF-8. Nothing was applied.")
	}
	return nil
}

// lineBuffer is the number of bytes of a text that are read at once, more than the longest item.
const lineBuffer = 16 << 10

// lines reads items from text: its non-empty lines, without carriage returns at their ends.
type lines struct {
	body   *bufio.Reader
	number int // of the last line, counting empty ones
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
			return nil, brokenText(err)
		}
		if item := bytes.TrimRight(line, "\r\n"); len(item) > 0 {
			return item, nil
		}
	}
}

// Place implements attempt.Source.
func (s *lines) Place() string { return fmt.Sprintf("line %d", s.number) }

// brokenText returns the error for a text that could not be read: err itself if it has a status, such as 413.
func brokenText(err error) error {
	_, known := errors.AsType[*problem.Error](err)
	if _, echos := errors.AsType[*echo.HTTPError](err); known || echos {
		return err
	}
	return problem.InvalidField.New("The body did not arrive completely. Nothing was applied.", problem.Cause(err))
}

// members reads the items of {"items":["...", ...]}.
type members struct {
	strings *strictjson.Strings
	index   int // of the last item
}

// Next implements attempt.Source.
func (s *members) Next() ([]byte, error) {
	item, err := s.strings.Next()
	s.index = s.strings.Index()
	if err == nil || errors.Is(err, io.EOF) {
		return item, err
	}
	if long, ok := errors.AsType[*strictjson.LongStringError](err); ok {
		s.index = long.Index
		return nil, attempt.ErrTooLong
	}
	return nil, httpserver.BodyError(err)
}

// Place implements attempt.Source.
func (s *members) Place() string { return fmt.Sprintf("%s[%d]", fieldItems, s.index) }
