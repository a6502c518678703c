package strictjson

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/rowlock/rowlock/platform/problem"
)

// maxDepth is the maximum nesting of objects and arrays.
const maxDepth = 32

// inspection reads the tokens of a document and keeps the first fault that decoding would not find.
type inspection struct {
	decoder *jsontext.Decoder
	reader  bytes.Reader
	first   *fault
}

var inspections = sync.Pool{New: func() any { return &inspection{decoder: new(jsontext.Decoder)} }}

// inspect checks the syntax of data. It returns INVALID_JSON, or the first null or missing member if there is one.
func inspect(data []byte, t reflect.Type) (*fault, error) {
	in, _ := inspections.Get().(*inspection) // it holds nothing else
	defer inspections.Put(in)

	in.first = nil
	in.reader.Reset(data)
	in.decoder.Reset(&in.reader, jsontext.AllowDuplicateNames(true)) // Unmarshal finds repeated names

	if in.decoder.PeekKind() != '{' {
		return nil, problem.InvalidJSON.New("The body is not a JSON object.")
	}

	if err := in.value(t); err != nil {
		return nil, err
	}
	if !Blank(data[in.decoder.InputOffset():]) {
		return nil, problem.InvalidJSON.New("More follows the JSON object.")
	}
	return in.first, nil
}

// value reads a value of type t, nil if the type is unknown.
func (in *inspection) value(t reflect.Type) error {
	token, err := in.decoder.ReadToken()
	if err != nil {
		return notJSON(err)
	}
	kind := token.Kind() // the next read invalidates token
	if in.decoder.StackDepth() > maxDepth {
		return problem.InvalidJSON.New(fmt.Sprintf("The body is nested deeper than %d levels.", maxDepth))
	}

	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}

	if kind == 'n' {
		in.found(in.decoder.StackPointer(), "may not be null")
	}
	if kind == '{' {
		return in.object(fieldsOf(t))
	}
	if kind != '[' {
		return nil
	}

	if t != nil && t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	for in.decoder.PeekKind() != ']' {
		if err := in.value(t); err != nil {
			return err
		}
	}
	return in.end()
}

// object reads the rest of an object with these fields.
func (in *inspection) object(fields []field) error {
	var seen uint64 // bit i: fields[i] was present
	for in.decoder.PeekKind() != '}' {
		name, err := in.decoder.ReadToken()
		if err != nil {
			return notJSON(err)
		}

		var member reflect.Type
		if i := slices.IndexFunc(fields, func(f field) bool { return f.name == name.String() }); i >= 0 {
			seen |= 1 << i
			member = fields[i].typ
		}

		if err := in.value(member); err != nil {
			return err
		}
	}
	if err := in.end(); err != nil {
		return err
	}

	for i, f := range fields {
		if f.required && seen&(1<<i) == 0 {
			in.found(in.decoder.StackPointer().AppendToken(f.name), isMissing)
		}
	}
	return nil
}

// end reads a closing bracket.
func (in *inspection) end() error {
	if _, err := in.decoder.ReadToken(); err != nil {
		return notJSON(err)
	}
	return nil
}

// found keeps the first fault.
func (in *inspection) found(at jsontext.Pointer, what string) {
	if in.first == nil {
		in.first = &fault{offset: in.decoder.InputOffset(), pointer: at, what: what}
	}
}

// notJSON returns INVALID_JSON for an error of the tokenizer. The error's text may quote the body, so the client gets
// only the offset.
func notJSON(err error) *problem.Error {
	detail := "The body is not valid JSON."
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		detail = fmt.Sprintf("The body is not valid JSON at byte %d.", syntax.ByteOffset)
	}
	return problem.InvalidJSON.New(detail, problem.Cause(err))
}

// field is one member of a struct.
type field struct {
	name     string
	typ      reflect.Type
	required bool
}

var fieldsByType sync.Map

// fieldsOf returns the fields of a struct, of which at most 64 may be required; none for other types.
func fieldsOf(t reflect.Type) []field {
	if t == nil || t.Kind() != reflect.Struct {
		return nil
	}

	if known, ok := fieldsByType.Load(t); ok {
		fields, _ := known.([]field) // it holds nothing else
		return fields
	}

	var fields []field
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			name = f.Name
		}
		optional := strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero")
		fields = append(fields, field{name, f.Type, !optional && name != "-" && f.IsExported()})
	}

	fieldsByType.Store(t, fields)
	return fields
}
