package strictjson

import (
	"bytes"
	"errors"
	"math/bits"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/rowlock/rowlock/platform/problem"
)

// maxDepth is how many objects and arrays may be nested.
const maxDepth = 32

// inspection walks through the tokens of a document and keeps the first fault that the types do not show.
type inspection struct {
	decoder *jsontext.Decoder
	reader  bytes.Reader
	first   *fault
}

//nolint:gochecknoglobals // a pool is a cache of memory, not state
var inspections = sync.Pool{New: func() any { return &inspection{decoder: new(jsontext.Decoder)} }}

// inspect checks the syntax of all of data. It returns INVALID_JSON, or the first null or missing member, if there is one.
func inspect(data []byte, root *shape) (*fault, error) {
	in, ok := inspections.Get().(*inspection)
	if !ok {
		return nil, errors.New("strictjson: the pool of inspections holds something else")
	}
	defer inspections.Put(in)
	in.first = nil
	in.reader.Reset(data)
	in.decoder.Reset(&in.reader, jsontext.AllowDuplicateNames(true)) // Unmarshal finds doubled names
	if in.decoder.PeekKind() != '{' {
		return nil, problem.InvalidJSON.New("The body is not a JSON object.")
	}
	if err := in.value(root); err != nil {
		return nil, err
	}
	if !Blank(data[in.decoder.InputOffset():]) {
		return nil, problem.InvalidJSON.New("More follows the JSON object.")
	}
	return in.first, nil
}

func (in *inspection) value(s *shape) error {
	token, err := in.decoder.ReadToken()
	if err != nil {
		return notJSON(err)
	}
	kind := token.Kind()
	if in.decoder.StackDepth() > maxDepth {
		return problem.InvalidJSON.New("The body is nested too deeply.")
	}
	switch {
	case kind == 'n' && in.first == nil:
		in.first = &fault{offset: in.decoder.InputOffset(), pointer: in.decoder.StackPointer(), what: mayNotBeNull}
	case kind == '{':
		return in.object(s)
	case kind == '[':
		return in.array(s)
	}
	return nil
}

func (in *inspection) object(s *shape) error {
	var seen uint64
	for in.decoder.PeekKind() != '}' {
		name, err := in.decoder.ReadToken()
		if err != nil {
			return notJSON(err)
		}
		var known *member
		if s != nil {
			known = s.members[name.String()]
		}
		var child *shape
		if known != nil {
			seen |= known.bit
			child = known.shape
		}
		if err := in.value(child); err != nil {
			return err
		}
	}
	if _, err := in.decoder.ReadToken(); err != nil {
		return notJSON(err)
	}
	if s == nil || in.first != nil {
		return nil
	}
	if missing := s.required &^ seen; missing != 0 {
		name := s.names[bits.TrailingZeros64(missing)]
		in.first = &fault{
			offset: in.decoder.InputOffset(), pointer: in.decoder.StackPointer().AppendToken(name), what: isMissing,
		}
	}
	return nil
}

func (in *inspection) array(s *shape) error {
	var elem *shape
	if s != nil {
		elem = s.elem
	}
	for in.decoder.PeekKind() != ']' {
		if err := in.value(elem); err != nil {
			return err
		}
	}
	if _, err := in.decoder.ReadToken(); err != nil {
		return notJSON(err)
	}
	return nil
}

// notJSON returns INVALID_JSON for an error of the tokenizer. Its text may quote the body and does not reach the client.
func notJSON(err error) *problem.Error {
	return problem.InvalidJSON.New("The body is not valid JSON.", problem.Cause(err))
}
