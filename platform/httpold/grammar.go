package httpold

import (
	"unicode/utf16"
	"unicode/utf8"
)

// The grammar of RFC 8259, as the scanner reads it. s.pos is always the first
// byte that is not read yet.

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// peek is the next byte. At the end it is 0, which begins nothing in JSON.
func (s *scanner) peek() byte {
	if s.pos < len(s.data) {
		return s.data[s.pos]
	}
	return 0
}

func (s *scanner) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\r', '\n':
			s.pos++
		default:
			return
		}
	}
}

func (s *scanner) atEnd() bool {
	s.space()
	return s.pos == len(s.data)
}

// unexpected is the error for a byte that fits nothing, or for none.
func (s *scanner) unexpected(wanted string) error {
	if s.pos == len(s.data) {
		return s.syntaxError("it ends where " + wanted + " should be,")
	}
	return s.syntaxError("there should be " + wanted)
}

// open reads the bracket that begins an object or an array.
func (s *scanner) open() error {
	if s.depth == maxDepth {
		return s.syntaxError("it nests deeper than 32 levels")
	}
	s.depth++
	s.pos++
	return nil
}

// next goes to the next element or, past the closing bracket, says that there
// is none.
func (s *scanner) next(closing byte, first bool) (more bool, err error) {
	s.space()
	switch c := s.peek(); {
	case c == closing:
		s.pos++
		s.depth--
		return false, nil
	case first:
		return true, nil
	case c == ',':
		s.pos++
		s.space()
		return true, nil
	}
	return false, s.unexpected("a comma or a closing bracket")
}

// key reads a member's name.
func (s *scanner) key() ([]byte, error) {
	if s.peek() != '"' {
		return nil, s.unexpected("a member's name in quotes")
	}
	return s.text()
}

func (s *scanner) colon() error {
	s.space()
	if s.peek() != ':' {
		return s.unexpected("a colon")
	}
	s.pos++
	s.space()
	return nil
}

// skip reads any value and keeps nothing of it.
func (s *scanner) skip() error {
	switch c := s.peek(); {
	case c == '{':
		return s.skipAll('}')
	case c == '[':
		return s.skipAll(']')
	case c == '"':
		_, err := s.text()
		return err
	case c == '-' || isDigit(c):
		_, _, err := s.number()
		return err
	case c == 't':
		return s.literal("true")
	case c == 'f':
		return s.literal("false")
	case c == 'n':
		return s.literal("null")
	}
	return s.unexpected("a value")
}

func (s *scanner) skipAll(closing byte) error {
	if err := s.open(); err != nil {
		return err
	}
	for first := true; ; first = false {
		more, err := s.next(closing, first)
		if err != nil || !more {
			return err
		}
		if closing == '}' {
			if _, err := s.key(); err != nil {
				return err
			}
			if err := s.colon(); err != nil {
				return err
			}
		}
		if err := s.skip(); err != nil {
			return err
		}
	}
}

func (s *scanner) literal(word string) error {
	if end := s.pos + len(word); end <= len(s.data) && string(s.data[s.pos:end]) == word {
		s.pos = end
		return nil
	}
	return s.unexpected("a value")
}

// number reads a number; whole says that it has neither fraction nor exponent.
func (s *scanner) number() (token []byte, whole bool, err error) {
	start := s.pos
	if s.peek() == '-' {
		s.pos++
	}
	if s.peek() == '0' {
		s.pos++ // no digit may follow it; whoever reads on will meet it
	} else if !s.digits() {
		return nil, false, s.unexpected("a digit")
	}
	whole = true
	if s.peek() == '.' {
		whole = false
		s.pos++
		if !s.digits() {
			return nil, false, s.unexpected("a digit")
		}
	}
	if s.peek()|0x20 == 'e' {
		whole = false
		s.pos++
		if c := s.peek(); c == '+' || c == '-' {
			s.pos++
		}
		if !s.digits() {
			return nil, false, s.unexpected("a digit")
		}
	}
	return s.data[start:s.pos], whole, nil
}

// digits reads those that come and says whether there was one.
func (s *scanner) digits() bool {
	start := s.pos
	for isDigit(s.peek()) {
		s.pos++
	}
	return s.pos > start
}

// text reads a string. What it returns is valid until the next call.
func (s *scanner) text() ([]byte, error) {
	s.pos++
	start := s.pos
	plain := true
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; {
		case c == '"':
			raw := s.data[start:s.pos]
			if !plain && !utf8.Valid(raw) {
				return nil, s.syntaxError("a string that is not valid UTF-8 ends")
			}
			s.pos++
			return raw, nil
		case c == '\\':
			return s.escapedText(start)
		case c < ' ':
			return nil, s.syntaxError("there is a control character in a string")
		case c >= utf8.RuneSelf:
			plain = false
		}
		s.pos++
	}
	return nil, s.unexpected("the end of a string")
}

// escapedText goes on with a string, begun at start, at its first escape.
func (s *scanner) escapedText(start int) ([]byte, error) {
	s.scratch = append(s.scratch[:0], s.data[start:s.pos]...)
	out := s.scratch
	for s.pos < len(s.data) {
		c := s.data[s.pos]
		switch {
		case c == '"':
			s.scratch = out
			if !utf8.Valid(out) {
				return nil, s.syntaxError("a string that is not valid UTF-8 ends")
			}
			s.pos++
			return out, nil
		case c == '\\':
			r, err := s.escape()
			if err != nil {
				return nil, err
			}
			out = utf8.AppendRune(out, r)
			continue
		case c < ' ':
			return nil, s.syntaxError("there is a control character in a string")
		}
		out = append(out, c)
		s.pos++
	}
	return nil, s.unexpected("the end of a string")
}

// escape reads a backslash and what belongs to it.
func (s *scanner) escape() (rune, error) {
	s.pos++
	c := s.peek()
	if c == 'u' {
		return s.unicodeEscape()
	}
	const from, to = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
	for i := range len(from) {
		if from[i] == c {
			s.pos++
			return rune(to[i]), nil
		}
	}
	return 0, s.unexpected("one of \"\\/bfnrtu")
}

func (s *scanner) unicodeEscape() (rune, error) {
	r, err := s.hex4()
	if err != nil || !utf16.IsSurrogate(r) {
		return r, err
	}
	if s.peek() == '\\' && s.pos+1 < len(s.data) && s.data[s.pos+1] == 'u' {
		s.pos++
		low, err := s.hex4()
		if err != nil {
			return 0, err
		}
		if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
			return r, nil
		}
	}
	return 0, s.syntaxError("an escape that is half a character ends")
}

// hex4 reads the u and the four digits after it.
func (s *scanner) hex4() (rune, error) {
	var r rune
	for range 4 {
		s.pos++
		c := s.peek()
		switch {
		case isDigit(c):
			r = r<<4 | rune(c-'0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, s.unexpected("four hexadecimal digits")
		}
	}
	s.pos++
	return r, nil
}
