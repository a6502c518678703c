package config

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// The values of the tag secret.
const (
	secretWhole = "true" // print nothing of it
	secretURL   = "url"  // print it without its password
)

// field is one variable: a field of the struct and its tags.
type field struct {
	name         string
	byDefault    string // in the environment's notation
	required     bool
	help, secret string
	oneOf        string // separated by |
	min, max     string
	value        reflect.Value
}

// layout describes a configuration struct.
type layout struct {
	fields     []field
	validators []validator
}

// validator is a configuration with checks that tags cannot express.
type validator interface{ Validate(faults *Faults) }

// defaulter is a configuration that replaces defaults of its embedded structs, by the variables' names.
type defaulter interface{ Defaults() map[string]string }

// helper is a configuration that describes its variables, by name.
type helper interface{ Help() map[string]string }

// inspect reads the tags of the struct that dst points to. Its errors are mistakes of the program.
func inspect(dst any) (*layout, error) {
	v := reflect.ValueOf(dst)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		return nil, fmt.Errorf("config: %T is not a pointer to a struct", dst)
	}

	l := &layout{}
	l.walk(v.Elem())

	// The outer struct may replace defaults of the structs that it embeds.
	var defaults map[string]string
	if d, ok := dst.(defaulter); ok {
		defaults = d.Defaults()
	}

	for i, f := range l.fields {
		if value, ok := defaults[f.name]; ok {
			l.fields[i].byDefault, l.fields[i].required = value, false
		}

		switch {
		case f.help == "":
			return nil, fmt.Errorf("config: %s has no help", f.name)
		case f.secret != "" && f.secret != secretWhole && f.secret != secretURL:
			return nil, fmt.Errorf("config: %s: tag secret:%q is not true or url", f.name, f.secret)
		case slices.ContainsFunc(l.fields[:i], func(other field) bool { return other.name == f.name }):
			return nil, fmt.Errorf("config: two fields read %s", f.name)
		}
	}
	return l, nil
}

// walk adds the exported fields of v: a field with an env tag is a variable, any other struct is walked too.
func (l *layout) walk(v reflect.Value) {
	for i := range v.NumField() {
		tags, value := v.Type().Field(i).Tag, v.Field(i)
		if !value.CanSet() {
			continue
		}

		name, options, _ := strings.Cut(tags.Get("env"), ",")
		if name != "" {
			l.fields = append(l.fields, field{
				name: name, byDefault: tags.Get("envDefault"), required: options == "required",
				help: tags.Get("help"), secret: tags.Get("secret"), oneOf: tags.Get("oneof"),
				min: tags.Get("min"), max: tags.Get("max"), value: value,
			})
		} else if value.Kind() == reflect.Struct {
			l.walk(value)
		}
	}

	if described, ok := reflect.TypeAssert[helper](v.Addr()); ok {
		help := described.Help()
		for i, f := range l.fields {
			l.fields[i].help = cmp.Or(f.help, help[f.name])
		}
	}

	// Appended after those of embedded structs, so that an outer struct can rely on what they checked.
	if check, ok := reflect.TypeAssert[validator](v.Addr()); ok {
		l.validators = append(l.validators, check)
	}
}
