package config

import (
	"cmp"
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

// Environ returns the environment of the process as a map. All other code of Rowlock is given this map.
func Environ() map[string]string { return env.ToMap(os.Environ()) }

// Load fills the struct that dst points to from environ, checks every variable against its tags, and calls the Validate
// methods of the struct and of its embedded structs.
//
// It returns all faults as one error, a sentence each, in the order of the fields. No sentence contains the value of a
// variable tagged secret. After an error dst must not be used. Load panics on a mistake in the struct: a field without
// help, or two fields with one name.
func Load(dst any, environ map[string]string) error {
	l := inspect(dst)
	faults := &Faults{unread: make(map[string]bool)}
	for _, f := range l.fields {
		given := strings.TrimRight(environ[f.name], "\r\n")
		if sentence := f.read(given); sentence != "" {
			faults.Add(f.name + ": " + sentence)
			faults.unread[f.name] = true
		}
	}

	for _, v := range l.validators {
		v.Validate(faults)
	}
	return faults.err()
}

// read sets the field to the given value, or to its default if that is empty, and returns what is wrong with it.
func (f field) read(given string) string {
	given = cmp.Or(given, f.byDefault)
	if given == "" {
		if f.required {
			return "required, but not set"
		}
		return "" // optional and not set: nothing to check
	}

	value, err := parse(f.value.Type(), given)
	if err != nil {
		return f.unreadable(given, err)
	}
	f.value.Set(value)
	return f.outOfBounds()
}

// parse reads a value of type t like package env.
func parse(t reflect.Type, value string) (reflect.Value, error) {
	holder := reflect.New(reflect.StructOf([]reflect.StructField{{Name: "Value", Type: t, Tag: `env:"VALUE"`}}))
	err := env.ParseWithOptions(holder.Interface(), env.Options{Environment: map[string]string{"VALUE": value}})
	if all, ok := errors.AsType[env.AggregateError](err); ok {
		err = all.Errors[0]
	}
	if bad, ok := errors.AsType[env.ParseError](err); ok {
		err = bad.Err
	}
	return holder.Elem().Field(0), err
}

// unreadable says why a value cannot be read as the field's type.
func (f field) unreadable(value string, cause error) string {
	if f.secret != "" {
		return "the value cannot be read (it is secret and not repeated here)"
	}
	if errors.Is(cause, strconv.ErrRange) {
		return quote(value) + " is out of range"
	}

	_, isText := reflect.TypeAssert[encoding.TextUnmarshaler](f.value.Addr())
	what := "a " + f.value.Type().String()
	switch {
	case isText:
		return cause.Error()
	case f.value.Type() == reflect.TypeFor[time.Duration]():
		what = "a duration such as 500ms, 5s or 1m30s"
	case f.value.Kind() == reflect.Bool:
		what = "true or false"
	case f.value.CanInt():
		what = "a whole number"
	}

	return quote(value) + " is not " + what
}

// outOfBounds says which tag the value violates; "" if none.
func (f field) outOfBounds() string {
	shown, quoted := text(f.value), quote(text(f.value))
	if f.secret != "" {
		shown, quoted = "the value", "the value"
	}

	if words := strings.Split(f.oneOf, "|"); f.oneOf != "" && !slices.Contains(words, text(f.value)) {
		last := len(words) - 1
		return quoted + " is not " + strings.Join(words[:last], ", ") + " or " + words[last]
	}

	// outside reports whether the value is beyond a bound, in the direction of sign.
	outside := func(bound string, sign float64) bool {
		if bound == "" {
			return false
		}
		limit, err := parse(f.value.Type(), bound)
		return err != nil || sign*(number(f.value)-number(limit)) > 0
	}

	if outside(f.min, -1) {
		return shown + " must be at least " + f.min
	}
	if outside(f.max, +1) {
		return shown + " must be at most " + f.max
	}
	return ""
}

// number returns the value as a float64, exact up to 2^53, which is far above any useful bound.
func number(v reflect.Value) float64 {
	return v.Convert(reflect.TypeFor[float64]()).Float()
}

// text returns a value in the environment's notation.
func text(v reflect.Value) string { return fmt.Sprint(v.Interface()) }

// quote quotes a value for a sentence, shortened to 80 characters.
func quote(value string) string {
	const longest = 80
	if runes := []rune(value); len(runes) > longest {
		value = string(runes[:longest]) + "..."
	}
	return strconv.Quote(value)
}
