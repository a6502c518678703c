package strictjson

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/rowlock/rowlock/platform/problem"
)

// LongStringError reports that the string at Index, counted from 0, is too long.
type LongStringError struct{ Index int }

func (e *LongStringError) Error() string {
	return fmt.Sprintf("the string at index %d is too long", e.Index)
}

// Strings reads a document {"member":["...", ...]} string by string, with some hundred kilobytes of memory for any
// length. It is as strict as Unmarshal, but stops at the first fault: strings read before a fault must not be used.
type Strings struct {
	decoder *jsontext.Decoder
	member  string
	longest int64
	started bool
	next    int    // index of the next string
	text    []byte // the last string
	given   int64  // bytes that the decoder has got
	reader  io.Reader
	err     error // final error of Next
}

const (
	// escapedByte is how many bytes of JSON one byte of a string may take: \u0061.
	escapedByte = 6
	// slack is how far the decoder may read ahead beyond one string.
	slack = 128 << 10
	// chunk is how much the decoder gets at once.
	chunk = 16 << 10
	// space is JSON's white space.
	space = " \t\r\n"
)

// NewStrings returns the strings of member in r. A string that is far longer than longest, in bytes, is refused unread
// with a *LongStringError; a string of at most longest never is. Errors of r are wrapped.
func NewStrings(r io.Reader, member string, longest int) *Strings {
	s := &Strings{member: member, longest: int64(longest), reader: r}
	s.decoder = jsontext.NewDecoder(&bounded{s}, jsontext.AllowDuplicateNames(true))
	return s
}

// bounded feeds the decoder, unless the string that it collects is certainly too long. It drops white space after white
// space, because the decoder would keep it until the next token.
type bounded struct{ *Strings }

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	if b.given-b.decoder.InputOffset() > escapedByte*b.longest+slack {
		return 0, &LongStringError{Index: b.next}
	}

	n, err := b.reader.Read(p[:min(len(p), chunk)])
	if betweenTokens(b.decoder.UnreadBuffer()) {
		n = copy(p, bytes.TrimLeft(p[:n], space))
	}
	b.given += int64(n)
	return n, err
}

// betweenTokens reports whether unread ends in white space that is not part of a string.
func betweenTokens(unread []byte) bool {
	end := len(unread) - 1
	return end >= 0 && strings.IndexByte(space, unread[end]) >= 0 && bytes.IndexByte(unread, '"') < 0
}

// Next returns the next string, valid until the next call. It returns io.EOF after reading the whole document without a
// fault.
func (s *Strings) Next() ([]byte, error) {
	if s.err == nil && !s.started {
		s.started = true
		s.err = s.begin()
	}
	if s.err == nil {
		s.err = s.read()
	}
	return s.text, s.err
}

// Index returns the index of the string that Next returned last.
func (s *Strings) Index() int { return s.next - 1 }

// begin reads up to the array.
func (s *Strings) begin() error {
	if err := s.want('{', problem.InvalidJSON.New("The body is not a JSON object.")); err != nil {
		return err
	}
	name, err := s.decoder.ReadToken()
	switch {
	case err != nil:
		return s.broken(err)
	case name.Kind() == '}':
		if err := s.finish(); !errors.Is(err, io.EOF) {
			return err
		}
		return (&fault{pointer: jsontext.Pointer("/" + s.member), what: isMissing}).problem()
	case name.String() != s.member:
		return (&fault{pointer: s.decoder.StackPointer(), what: isUnknown}).problem()
	}
	return s.want('[', (&fault{pointer: s.decoder.StackPointer(), what: "must be a list"}).problem())
}

// want reads a token, and returns otherwise if it has another kind.
func (s *Strings) want(kind jsontext.Kind, otherwise error) error {
	token, err := s.decoder.ReadToken()
	if err != nil {
		return s.broken(err)
	}
	if token.Kind() != kind {
		return otherwise
	}
	return nil
}

// read reads a string into s.text, or the end of the document.
func (s *Strings) read() error {
	value, err := s.decoder.ReadToken()
	switch {
	case err != nil:
		return s.broken(err)
	case value.Kind() == ']':
		return s.end()
	case value.Kind() != '"':
		return (&fault{pointer: s.decoder.StackPointer(), what: "must be a string"}).problem()
	}

	s.text = append(s.text[:0], value.String()...)
	s.next++
	return nil
}

// end reads what follows the array: the end of the object and of the document.
func (s *Strings) end() error {
	token, err := s.decoder.ReadToken()
	switch {
	case err != nil:
		return s.broken(err)
	case token.Kind() != '}' && token.String() == s.member:
		return (&fault{pointer: s.decoder.StackPointer(), what: isDoubled}).problem()
	case token.Kind() != '}':
		return (&fault{pointer: s.decoder.StackPointer(), what: isUnknown}).problem()
	}
	return s.finish()
}

// finish returns io.EOF if nothing follows the document.
func (s *Strings) finish() error {
	_, err := s.decoder.ReadToken()
	switch {
	case err == nil:
		return problem.InvalidJSON.New("More follows the JSON object.")
	case !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return s.broken(err)
	}
	return io.EOF
}

// broken translates an error of the decoder: an error of the reader or a fault of the document.
func (s *Strings) broken(err error) error {
	if long, ok := errors.AsType[*LongStringError](err); ok {
		return long
	}
	if errors.Is(err, io.EOF) { // must not look like the end of the strings
		return problem.InvalidJSON.New("The body is empty; a JSON object is expected.")
	}
	if _, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		after := "" // instead of the offset, which bounded changes
		if s.next > 0 {
			after = fmt.Sprintf(" after %s[%d]", s.member, s.next-1)
		}
		return problem.InvalidJSON.New("The body is not valid JSON"+after+".", problem.Cause(err))
	}
	return fmt.Errorf("strictjson: read: %w", err)
}
