package httpold

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/rowlock/rowlock/platform/problem"
)

// LongStringError says that the string at an index (counted from 0) is surely
// longer than NewStrings was told to expect.
type LongStringError struct{ Index int }

func (e *LongStringError) Error() string {
	return fmt.Sprintf("the string at index %d is too long", e.Index)
}

// Strings reads a body {"member":["...", ...]} as a stream, one string at a time.
// Memory stays at some hundred kilobytes however long the body is.
//
// It is as strict as DecodeJSON and gives the same errors, except that it stops at
// the first fault: what was read before then is not to be used.
type Strings struct {
	scanner

	header  http.Header
	body    io.Reader
	member  string
	longest int
	buf     []byte // data is its beginning
	ended   bool   // the body has no more
	next    int    // index of the next string, -1 before the array
	err     error  // what Next ended with
}

// NewStrings reads the body of r. longest is the length in bytes from which a
// string may be refused unread with a *LongStringError; a shorter one never is.
func NewStrings(r *http.Request, member string, longest int) *Strings {
	s := &Strings{header: r.Header, body: r.Body, member: member, longest: longest, buf: make([]byte, streamBuffer), next: -1}
	if s.body == nil {
		s.body = http.NoBody
	}
	return s
}

// Next returns the next string, valid until the next call, and io.EOF when the
// whole body was read and is what it should be.
func (s *Strings) Next() ([]byte, error) {
	if s.err != nil {
		return nil, s.err
	}
	var text []byte
	if s.next < 0 {
		s.err = s.begin()
	}
	if s.err == nil {
		text, s.err = s.element()
	}
	return text, s.err
}

// Index is that of the string that Next has returned last.
func (s *Strings) Index() int { return s.next - 1 }

const (
	// streamBuffer is how much of the body is read at once.
	streamBuffer = 64 << 10
	// escapedByte is how many bytes one byte of a string may take in JSON: \u0061.
	escapedByte = 6
)

// fill forgets what was read and appends more; false at the end of the body.
func (s *Strings) fill() (bool, error) {
	if s.ended {
		return false, nil
	}
	kept := copy(s.buf, s.data[s.pos:])
	s.base, s.pos, s.data = s.base+s.pos, 0, s.buf[:kept]
	if kept == len(s.buf) {
		grown := make([]byte, 2*len(s.buf))
		copy(grown, s.buf)
		s.buf = grown
	}
	n, err := s.body.Read(s.buf[kept:])
	s.data = s.buf[:kept+n]
	switch {
	case errors.Is(err, io.EOF):
		s.ended = true
	case err != nil:
		if tooLarge, ok := errors.AsType[*problem.Error](err); ok {
			return false, tooLarge
		}
		return false, problem.InvalidJSON.New("The body did not arrive whole.", problem.Cause(err))
	}
	return n > 0 || !s.ended, nil
}

// token goes to the next byte that is no space and returns it, 0 at the end.
func (s *Strings) token() (byte, error) {
	for {
		s.space()
		if s.pos < len(s.data) {
			return s.data[s.pos], nil
		}
		if more, err := s.fill(); err != nil || !more {
			return 0, err
		}
	}
}

// wholeText reads the string whose quote is the next byte; false when it is
// longer than s.longest for certain.
func (s *Strings) wholeText() (text []byte, fits bool, err error) {
	for looked := 1; ; {
		for s.pos+looked < len(s.data) && s.data[s.pos+looked] != '"' {
			if s.data[s.pos+looked] == '\\' {
				looked++
			}
			looked++
		}
		if s.pos+looked < len(s.data) {
			break
		}
		if looked > escapedByte*(s.longest+1) {
			return nil, false, nil
		}
		more, err := s.fill()
		if err != nil {
			return nil, false, err
		}
		if !more {
			break // the scanner says what is missing
		}
	}
	text, err = s.text()
	return text, true, err
}

// want reads one byte of punctuation.
func (s *Strings) want(c byte, name string) error {
	got, err := s.token()
	if err == nil && got != c {
		err = s.unexpected(name)
	}
	s.pos++
	return err
}

// begin reads up to the array's bracket.
func (s *Strings) begin() error {
	if err := checkMediaType(s.header); err != nil {
		return err
	}
	switch first, err := s.token(); {
	case err != nil:
		return err
	case first == 0 && s.pos == len(s.data):
		return emptyBody(decodeOptions{})
	case first != '{':
		return problem.InvalidJSON.New("The body must be a JSON object.")
	}
	s.pos++
	if c, err := s.token(); err != nil {
		return err
	} else if c == '}' {
		s.pos++
		if err := s.finish(); !errors.Is(err, io.EOF) {
			return err
		}
		return problem.InvalidField.New("The member "+s.member+" is missing.", problem.Field(s.member))
	}
	if err := s.name(); err != nil {
		return err
	}
	s.path = append(s.path[:0], step{name: s.member})
	switch c, err := s.token(); {
	case err != nil:
		return err
	case c != '[':
		return s.notA("an array", c)
	}
	s.pos++
	s.next = 0
	return nil
}

// name reads a member's name, which must be that of the one member, and the colon.
func (s *Strings) name() error {
	switch c, err := s.token(); {
	case err != nil:
		return err
	case c != '"':
		return s.unexpected("a member's name in quotes")
	}
	name, fits, err := s.wholeText()
	switch {
	case err != nil:
		return err
	case !fits || string(name) != s.member:
		s.path = s.path[:0]
		s.unknownMember(name)
		return s.fault
	case s.next >= 0:
		return problem.InvalidField.New("The member "+s.member+" is there twice.", problem.Field(s.member))
	}
	return s.want(':', "a colon")
}

// element reads the next string or, behind the last, the rest of the body.
func (s *Strings) element() ([]byte, error) {
	c, err := s.token()
	if err != nil {
		return nil, err
	}
	if c == ']' {
		s.pos++
		return nil, s.end()
	}
	if s.next > 0 {
		if err := s.want(',', "a comma or a closing bracket"); err != nil {
			return nil, err
		}
		if c, err = s.token(); err != nil {
			return nil, err
		}
	}
	s.path = append(s.path[:1], step{index: s.next})
	if c != '"' {
		return nil, s.notA("a string", c)
	}
	text, fits, err := s.wholeText()
	switch {
	case err != nil:
		return nil, err
	case !fits:
		return nil, &LongStringError{Index: s.next}
	}
	s.next++
	return text, nil
}

// end reads what follows the array: no other member.
func (s *Strings) end() error {
	switch c, err := s.token(); {
	case err != nil:
		return err
	case c == ',':
		s.pos++
		if err := s.name(); err != nil {
			return err
		}
	}
	if err := s.want('}', "a comma or a closing bracket"); err != nil {
		return err
	}
	return s.finish()
}

// finish is io.EOF when nothing follows the document.
func (s *Strings) finish() error {
	switch _, err := s.token(); {
	case err != nil:
		return err
	case s.pos < len(s.data):
		return s.syntaxError("something follows the document")
	}
	return io.EOF
}

// notA is the error for a value of another type, or for none.
func (s *Strings) notA(expected string, first byte) error {
	switch first {
	case '{', '[', '"', '-', 't', 'f', 'n', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		field := s.field()
		return problem.InvalidField.New("The member "+field+" must be "+expected+".", problem.Field(field))
	}
	return s.unexpected("a value")
}
