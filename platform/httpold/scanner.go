package httpold

import (
	"fmt"
	"math"
	"reflect"
	"strconv"

	"github.com/rowlock/rowlock/platform/problem"
)

// maxDepth is how deep objects and arrays may nest.
const maxDepth = 32

// scanner reads one JSON document and stores it on the way. A syntax error ends
// it. A member at fault does not: it is remembered, and the rest is read for its
// syntax, so that what is not JSON is always called so.
type scanner struct {
	data    []byte
	base    int // where data begins in the body
	pos     int
	depth   int
	path    []step // where the value being read stands
	scratch []byte // a string with escapes, decoded
	fault   *problem.Error
}

// step is a member's name or, when that is empty, an index.
type step struct {
	name  string
	index int
}

func (s *scanner) reset(data []byte) {
	*s = scanner{data: data, path: s.path[:0], scratch: s.scratch[:0]}
}

// syntaxError says what is wrong and where: a position, never the input.
func (s *scanner) syntaxError(what string) error {
	return problem.InvalidJSON.New(fmt.Sprintf("The body is not valid JSON: %s at byte %d.", what, s.base+s.pos))
}

// blame remembers the first fault.
func (s *scanner) blame(field, sentence string) {
	if s.fault == nil {
		s.fault = problem.InvalidField.New(sentence, problem.Field(field))
	}
}

// document reads the whole body into v.
func (s *scanner) document(p *plan, v reflect.Value) error {
	s.space()
	isObject := s.peek() == '{'
	var err error
	if isObject {
		err = s.object(p, v)
	} else {
		err = s.skip()
	}
	if err != nil {
		return err
	}
	switch {
	case !s.atEnd():
		return s.syntaxError("something follows the document")
	case !isObject:
		return problem.InvalidJSON.New("The body must be a JSON object.")
	case s.fault != nil:
		return s.fault
	}
	return nil
}

// value reads the value at s.pos, which is no space, into v.
func (s *scanner) value(p *plan, v reflect.Value) error {
	switch c := s.peek(); {
	case p.shape == aPointer:
		if v.IsNil() {
			v.Set(reflect.New(p.elem.typ))
		}
		return s.value(p.elem, v.Elem())
	case p.shape == anObject && c == '{':
		return s.object(p, v)
	case p.shape == anArray && c == '[':
		return s.array(p, v)
	case p.shape == aString && c == '"':
		text, err := s.text()
		if err == nil {
			v.SetString(string(text))
		}
		return err
	case p.shape == anInteger && (c == '-' || isDigit(c)):
		return s.integer(p, v)
	case p.shape == aBoolean && (c == 't' || c == 'f'):
		v.SetBool(c == 't')
		return s.skip()
	}
	s.wrongType(p)
	return s.skip()
}

func (s *scanner) wrongType(p *plan) {
	field := s.field()
	s.blame(field, "The member "+field+" must be "+p.expected()+".")
}

func (s *scanner) object(p *plan, v reflect.Value) error {
	if err := s.open(); err != nil {
		return err
	}
	var seen uint64
	for first := true; ; first = false {
		more, err := s.next('}', first)
		if err != nil || !more {
			return err
		}
		key, err := s.key()
		if err != nil {
			return err
		}
		m, known := p.members[string(key)]
		if !known {
			s.unknownMember(key)
		}
		if err := s.colon(); err != nil {
			return err
		}
		if known {
			err = s.member(m, seen&m.bit != 0, v)
			seen |= m.bit
		} else {
			err = s.skip()
		}
		if err != nil {
			return err
		}
	}
}

func (s *scanner) member(m member, twice bool, v reflect.Value) error {
	s.path = append(s.path, step{name: m.name})
	var err error
	if twice {
		field := s.field()
		s.blame(field, "The member "+field+" is there twice.")
		err = s.skip()
	} else {
		err = s.value(m.plan, v.Field(m.index))
	}
	s.path = s.path[:len(s.path)-1]
	return err
}

// unknownMember blames a name that does not exist. It is repeated to the client
// only when it looks like a name: a card number, for one, does not.
func (s *scanner) unknownMember(key []byte) {
	if !looksLikeName(key) {
		s.blame(s.field(), "There is a member with an unknown name.")
		return
	}
	s.path = append(s.path, step{name: string(key)})
	field := s.field()
	s.path = s.path[:len(s.path)-1]
	s.blame(field, "There is no member "+field+".")
}

func looksLikeName(key []byte) bool {
	const (
		longest    = 64
		mostDigits = 12 // a card number has 13 or more
	)
	digits := 0
	for _, c := range key {
		switch {
		case isDigit(c):
			digits++
		case c == '_' || c == '-' || 'a' <= c|0x20 && c|0x20 <= 'z':
		default:
			return false
		}
	}
	return len(key) > 0 && len(key) <= longest && digits <= mostDigits
}

func (s *scanner) array(p *plan, v reflect.Value) error {
	if err := s.open(); err != nil {
		return err
	}
	const atFirst = 4
	v.Set(reflect.MakeSlice(p.typ, 0, atFirst))
	s.path = append(s.path, step{})
	for n := 0; ; n++ {
		more, err := s.next(']', n == 0)
		if err == nil && more {
			if n == v.Cap() {
				v.Grow(n)
			}
			v.SetLen(n + 1)
			s.path[len(s.path)-1].index = n
			err = s.value(p.elem, v.Index(n))
		}
		if err != nil || !more {
			s.path = s.path[:len(s.path)-1]
			return err
		}
	}
}

func (s *scanner) integer(p *plan, v reflect.Value) error {
	token, whole, err := s.number()
	switch {
	case err != nil:
		return err
	case !whole:
		s.wrongType(p)
		return nil
	}
	bits := p.typ.Bits()
	if p.typ.Kind() >= reflect.Uint { // the unsigned kinds follow the signed ones
		n, err := strconv.ParseUint(string(token), 10, bits)
		if err != nil {
			s.outOfRange(token, "must be at least 0", strconv.FormatUint(math.MaxUint64>>(64-bits), 10))
		}
		v.SetUint(n)
		return nil
	}
	n, err := strconv.ParseInt(string(token), 10, bits)
	if err != nil {
		s.outOfRange(token, "is too small", strconv.FormatInt(math.MaxInt64>>(64-bits), 10))
	}
	v.SetInt(n)
	return nil
}

// outOfRange names only the bound that token breaks. How small a signed member
// may be is for the handler to say: the type's own bound would promise that
// negative numbers are fine.
func (s *scanner) outOfRange(token []byte, tooSmall, highest string) {
	complaint := "must be at most " + highest
	if token[0] == '-' {
		complaint = tooSmall
	}
	field := s.field()
	s.blame(field, "The member "+field+" "+complaint+".")
}

// field is the path of the value being read: "card.number", "items[3]".
func (s *scanner) field() string {
	var b []byte
	for _, at := range s.path {
		switch {
		case at.name == "":
			b = append(strconv.AppendInt(append(b, '['), int64(at.index), 10), ']')
		case len(b) > 0:
			b = append(append(b, '.'), at.name...)
		default:
			b = append(b, at.name...)
		}
	}
	return string(b)
}
