package strictjson

import (
	"bytes"
	"reflect"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/rowlock/rowlock/platform/problem"
)

// Unmarshal decodes data, one JSON object, into dst, a pointer to a struct. A field is required unless its tag has
// omitempty or omitzero, which oapi-codegen uses for optional members. dst is undefined after an error. If the client
// is at fault, the error is a *problem.Error:
//
//   - INVALID_JSON: not exactly one JSON object (RFC 8259), invalid UTF-8, or nested deeper than 32 levels.
//   - INVALID_FIELD, with the first wrong member: unknown (names are compared exactly), repeated, missing, or of the
//     wrong type. null is a wrong type. An integer consists of digits, without fraction or exponent, and must fit.
func Unmarshal(data []byte, dst any) error {
	first, err := inspect(data, reflect.TypeOf(dst))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, dst, json.RejectUnknownMembers(true)); err != nil {
		found, err := faultOf(err)
		if err != nil {
			return err
		}
		if first == nil || found.offset <= first.offset {
			first = found
		}
	}
	if first != nil {
		return first.problem()
	}
	return nil
}

// Blank reports whether data holds only white space. A request may have such a body if all members have defaults.
func Blank(data []byte) bool { return len(bytes.TrimLeft(data, " \t\r\n")) == 0 }

// Empty returns nil if dst, a pointer to a struct, has no required members, so that an absent body may stand for it. It
// returns INVALID_JSON otherwise.
func Empty(dst any) error {
	t := reflect.TypeOf(dst)
	if t.Kind() == reflect.Pointer && !slices.ContainsFunc(fieldsOf(t.Elem()), func(f field) bool { return f.required }) {
		return nil
	}
	return problem.InvalidJSON.New("The body is empty; a JSON object is expected.")
}
