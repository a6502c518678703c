package config

import (
	"encoding"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"
)

// Environ returns the environment of the process as a map. No other code of Rowlock reads it; it is given the map.
func Environ() map[string]string { return env.ToMap(os.Environ()) }

// Load fills the struct that dst points to from environ, checks every variable against its tags, and calls the Validate
// methods of the struct and of those that it embeds.
//
// It returns all faults as one error with a sentence for each variable, in the order of the fields; errors.As finds
// each as a [VariableError]. No sentence holds the value of a variable tagged secret. After an error dst must not be
// used. A bad struct (a field without help, two fields of one name) is an error in any environment.
func Load(dst any, environ map[string]string) error {
	l, err := inspect(dst)
	if err != nil {
		return err
	}
	given := make(map[string]string, len(environ)) // never nil: package env would read the process's own
	for name, value := range environ {
		if value != "" {
			given[name] = value
		}
	}
	for name, value := range l.defaults {
		if _, ok := given[name]; !ok {
			given[name] = value
		}
	}

	faults, err := l.read(dst, given)
	if err != nil {
		return err
	}
	var found []error
	for _, v := range l.validators {
		found = append(found, flatten(v.Validate())...)
	}
	if faults = merge(faults, found); len(faults) > 0 {
		return &loadError{faults: faults}
	}
	return nil
}

// read parses the variables by package env, turns its errors into sentences, and checks the tags. The error is a
// mistake in the program.
func (l *layout) read(dst any, given map[string]string) (faults []error, err error) {
	bad := map[string]string{} // by the name of the variable
	parsed, _ := errors.AsType[env.AggregateError](env.ParseWithOptions(dst, env.Options{Environment: given}))
	for _, e := range parsed.Errors {
		var missing env.VarIsNotSetError
		var parse env.ParseError
		switch {
		case errors.As(e, &missing):
			bad[missing.Key] = missing.Key + ": required, but not set"
		case errors.As(e, &parse):
			i := slices.IndexFunc(l.fields, func(f field) bool { return f.goName == parse.Name })
			if i < 0 {
				return nil, fmt.Errorf("config: %w", e)
			}
			f := l.fields[i]
			bad[f.name] = f.unreadable(given, parse.Err)
		default:
			return nil, fmt.Errorf("config: %w", e)
		}
	}
	for _, f := range l.fields {
		sentence, unreadable := bad[f.name]
		if _, set := given[f.name]; !unreadable && (set || f.byDefault != "") {
			sentence = f.outOfBounds() // an optional variable that is not set has no value to check
		}
		if sentence != "" {
			faults = append(faults, &VariableError{Variables: []string{f.name}, Sentence: sentence})
		}
	}
	return faults, nil
}

// unreadable returns a sentence for a value that cannot be read as the type of the field.
func (f field) unreadable(given map[string]string, cause error) string {
	if f.secret != "" {
		return f.name + ": the value cannot be read (it is secret and not repeated here)"
	}
	value, ok := given[f.name]
	if !ok {
		value = f.byDefault
	}
	if errors.Is(cause, strconv.ErrRange) {
		return fmt.Sprintf("%s: %s is out of range", f.name, quote(value))
	}
	if f.value.Type() == reflect.TypeFor[time.Duration]() {
		return fmt.Sprintf("%s: %s is not a duration such as 500ms, 5s or 1m30s", f.name, quote(value))
	}
	if _, ok := reflect.TypeAssert[encoding.TextUnmarshaler](f.value.Addr()); ok {
		return f.name + ": " + cause.Error()
	}
	var what string
	switch kind := f.value.Kind(); {
	case kind == reflect.Bool:
		what = "true or false"
	case f.value.CanInt() || f.value.CanUint():
		what = "a whole number"
	case f.value.CanFloat():
		what = "a number"
	default:
		return fmt.Sprintf("%s: %s cannot be read: %v", f.name, quote(value), cause)
	}
	return fmt.Sprintf("%s: %s is not %s", f.name, quote(value), what)
}

// outOfBounds returns a sentence for a value that the tags do not allow, else "".
func (f field) outOfBounds() string {
	value := text(f.value)
	if f.oneOf != nil && !slices.Contains(f.oneOf, value) {
		if f.secret != "" {
			return fmt.Sprintf("%s: the value is not %s", f.name, orList(f.oneOf))
		}
		return fmt.Sprintf("%s: %s is not %s", f.name, quote(value), orList(f.oneOf))
	}
	if f.secret != "" {
		value = "the value"
	}
	for _, bound := range []struct {
		text, word string
		broken     func(value, bound float64) bool
	}{
		{f.min, "at least", func(value, bound float64) bool { return value < bound }},
		{f.max, "at most", func(value, bound float64) bool { return value > bound }},
	} {
		if bound.text == "" {
			continue
		}
		limit, err := parseBound(f.value.Type(), bound.text)
		if err == nil && bound.broken(number(f.value), limit) {
			return fmt.Sprintf("%s: %s must be %s %s", f.name, value, bound.word, bound.text)
		}
	}
	return ""
}

// parseBound reads a tag min or max as a value of the field's own type.
func parseBound(t reflect.Type, bound string) (float64, error) {
	holder := reflect.New(reflect.StructOf([]reflect.StructField{{Name: "Bound", Type: t, Tag: `env:"BOUND"`}}))
	options := env.Options{Environment: map[string]string{"BOUND": bound}}
	if err := env.ParseWithOptions(holder.Interface(), options); err != nil {
		return 0, fmt.Errorf("read as %s: %w", t, err)
	}
	value := holder.Elem().Field(0)
	if !value.CanInt() && !value.CanUint() && !value.CanFloat() {
		return 0, fmt.Errorf("%s has no order", t)
	}
	return number(value), nil
}

// number returns the value as a float64, exact up to 2^53: far above any bound worth setting.
func number(v reflect.Value) float64 {
	switch {
	case v.CanInt():
		return float64(v.Int())
	case v.CanUint():
		return float64(v.Uint())
	default:
		return v.Float()
	}
}

// quote quotes a value for a sentence and cuts it after 80 characters.
func quote(value string) string {
	const longest = 80
	if runes := []rune(value); len(runes) > longest {
		value = string(runes[:longest]) + "..."
	}
	return strconv.Quote(value)
}

// orList returns "a, b or c".
func orList(words []string) string {
	last := len(words) - 1
	if last <= 0 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
