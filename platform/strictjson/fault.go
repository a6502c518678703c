package strictjson

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/rowlock/rowlock/platform/problem"
)

// The faults of a member.
const (
	isMissing = "is missing"
	isDoubled = "is repeated"
	isUnknown = "is unknown"
)

// fault is one member that the client got wrong.
type fault struct {
	offset  int64
	pointer jsontext.Pointer
	what    string
}

// faultOf translates an error of json.Unmarshal. It returns an error if the client is not at fault or sent no JSON.
func faultOf(err error) (*fault, error) {
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		if !errors.Is(err, jsontext.ErrDuplicateName) {
			return nil, notJSON(err)
		}
		return &fault{offset: syntax.ByteOffset, pointer: syntax.JSONPointer, what: isDoubled}, nil
	}

	wrong, ok := errors.AsType[*json.SemanticError](err)
	if !ok || wrong.JSONKind == 0 {
		return nil, fmt.Errorf("strictjson: decode: %w", err)
	}

	f := &fault{offset: wrong.ByteOffset, pointer: wrong.JSONPointer}
	switch {
	case errors.Is(err, json.ErrUnknownName):
		f.what = isUnknown
	case errors.Is(err, strconv.ErrRange):
		f.what = "is out of range"
	default:
		f.what = "must be " + wanted(wrong.GoType)
	}
	return f, nil
}

// wanted describes the JSON that t accepts.
func wanted(t reflect.Type) string {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}

	switch {
	case t == nil:
		return "of another type"
	case t.Kind() == reflect.String:
		return "a string"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Slice:
		return "a list"
	case t.Kind() == reflect.Struct:
		return "an object"
	}
	return "a whole number in digits, without fraction or exponent"
}

// problem returns INVALID_FIELD. A name that the contract does not have is shown only if it looks like the name of a
// member: clients put secrets in wrong places.
func (f *fault) problem() *problem.Error {
	var shown jsontext.Pointer
	for name := range f.pointer.Tokens() {
		if !looksLikeName(name) {
			return problem.InvalidField.New("There is a member with an unknown name.", problem.Field(path(shown)))
		}
		shown = shown.AppendToken(name)
	}

	field := path(shown)
	if f.what == isUnknown {
		return problem.InvalidField.New("There is no member "+field+".", problem.Field(field))
	}
	return problem.InvalidField.New("The member "+field+" "+f.what+".", problem.Field(field))
}

// path writes a JSON pointer in the usual notation: cards[1].number.
func path(pointer jsontext.Pointer) string {
	var b strings.Builder
	for token := range pointer.Tokens() {
		if index, err := strconv.Atoi(token); err == nil && b.Len() > 0 {
			fmt.Fprintf(&b, "[%d]", index)
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(token)
	}
	return b.String()
}

// looksLikeName reports whether name consists of at most 64 letters, digits, underscores and hyphens, with fewer digits
// than a card number.
func looksLikeName(name string) bool {
	const mostDigits = 12
	return memberName.MatchString(name) && len(digit.FindAllString(name, -1)) <= mostDigits
}

var (
	memberName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	digit      = regexp.MustCompile(`\d`)
)
