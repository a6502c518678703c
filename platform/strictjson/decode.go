package strictjson

import (
	"bytes"
	"reflect"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/rowlock/rowlock/platform/problem"
)

// Unmarshal decodes data, one JSON object, into dst, a pointer to a struct. A field is required unless its tag has
// omitempty or omitzero, which is how oapi-codegen writes optional members. dst is undefined after an error. An error
// that is the client's fault is a *problem.Error:
//
//   - INVALID_JSON: not one JSON object (RFC 8259) and nothing else, invalid UTF-8, or nesting beyond 32 levels.
//   - INVALID_FIELD, with the first member at fault: unknown (names are compared exactly), present twice, missing, or
//     of a wrong type. null is a wrong type. An integer is digits, without fraction or exponent, and must fit.
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

// Blank reports whether data holds nothing but white space, as the body of a request whose members all have defaults
// may.
func Blank(data []byte) bool { return len(bytes.TrimLeft(data, " \t\r\n")) == 0 }

// Empty returns nil when an absent body may stand for dst, a pointer to a struct without required members, and
// INVALID_JSON otherwise.
func Empty(dst any) error {
	t := reflect.TypeOf(dst)
	if t.Kind() == reflect.Pointer && !slices.ContainsFunc(fieldsOf(t.Elem()), func(f field) bool { return f.required }) {
		return nil
	}
	return problem.InvalidJSON.New("The body is empty; a JSON object is expected.")
}
