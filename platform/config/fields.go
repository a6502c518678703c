package config

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
)

// secretURL is the value of the tag secret for a URL, which is printed without its password. Any other secret is masked
// completely.
const secretURL = "url"

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

// inspect reads the tags of the struct that dst points to. It panics on mistakes of the program.
func inspect(dst any) *layout {
	l := &layout{}
	l.walk(reflect.ValueOf(dst).Elem())

	// The outer struct may replace defaults of the structs that it embeds.
	var defaults map[string]string
	if d, ok := dst.(defaulter); ok {
		defaults = d.Defaults()
	}

	for i, f := range l.fields {
		if value, ok := defaults[f.name]; ok {
			l.fields[i].byDefault, l.fields[i].required = value, false
		}
		if f.help == "" || slices.ContainsFunc(l.fields[:i], func(other field) bool { return other.name == f.name }) {
			panic("config: " + f.name + " has no help, or two fields read it")
		}
	}
	return l
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
