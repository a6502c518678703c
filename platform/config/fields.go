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
	secretWhole = "true" // nothing is printed
	secretURL   = "url"  // the password in it is not printed
)

// field is one variable: its place in the struct and its tags.
type field struct {
	name, goName string
	byDefault    string // as the environment would hold it
	required     bool
	help, secret string
	oneOf        []string
	min, max     string
	value        reflect.Value
}

// layout describes a configuration struct.
type layout struct {
	fields     []field
	validators []validator
	defaults   map[string]string // the variables whose default the struct replaces
}

// validator is a configuration that checks itself.
type validator interface{ Validate() error }

// defaulter is a configuration that replaces defaults of the structs that it embeds, by the variables' names.
type defaulter interface{ Defaults() map[string]string }

// helper is a configuration that describes its variables, by their names.
type helper interface{ Help() map[string]string }

// inspect reads the tags of the struct that dst points to. Its errors are mistakes in the program.
func inspect(dst any) (*layout, error) {
	v := reflect.ValueOf(dst)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		return nil, fmt.Errorf("config: %T is not a pointer to a struct", dst)
	}
	l := &layout{}
	if err := l.walk(v.Elem(), ""); err != nil {
		return nil, err
	}
	for _, f := range l.fields {
		if f.help == "" {
			return nil, fmt.Errorf("config: %s has no help", f.name)
		}
	}
	if d, ok := dst.(defaulter); ok {
		l.defaults = d.Defaults()
	}
	for name, value := range l.defaults {
		i := slices.IndexFunc(l.fields, func(f field) bool { return f.name == name })
		if i < 0 {
			return nil, fmt.Errorf("config: Defaults of %T names %s, which is no variable of it", dst, name)
		}
		l.fields[i].byDefault, l.fields[i].required = value, false
	}
	return l, nil
}

// walk adds the fields as package env reads them: exported fields with a name are variables, structs without one are
// entered.
func (l *layout) walk(v reflect.Value, prefix string) error {
	for i := range v.NumField() {
		sf, value := v.Type().Field(i), v.Field(i)
		if !value.CanSet() {
			continue
		}
		name, options, _ := strings.Cut(sf.Tag.Get("env"), ",")
		var err error
		switch {
		case name != "":
			err = l.add(sf, value, prefix+name, options)
		case value.Kind() == reflect.Struct:
			err = l.walk(value, prefix+sf.Tag.Get("envPrefix"))
		}
		if err != nil {
			return err
		}
	}
	if described, ok := reflect.TypeAssert[helper](v.Addr()); ok {
		help := described.Help()
		for i, f := range l.fields {
			l.fields[i].help = cmp.Or(f.help, help[f.name])
		}
	}
	// After the embedded ones, so that the outer struct can rely on what they checked.
	if check, ok := reflect.TypeAssert[validator](v.Addr()); ok {
		l.validators = append(l.validators, check)
	}
	return nil
}

func (l *layout) add(sf reflect.StructField, value reflect.Value, name, options string) error {
	f := field{
		name: name, goName: sf.Name, byDefault: sf.Tag.Get("envDefault"),
		required: slices.Contains(strings.Split(options, ","), "required"),
		help:     sf.Tag.Get("help"), secret: sf.Tag.Get("secret"),
		min: sf.Tag.Get("min"), max: sf.Tag.Get("max"), value: value,
	}
	if list := sf.Tag.Get("oneof"); list != "" {
		f.oneOf = strings.Split(list, "|")
	}
	if f.secret != "" && f.secret != secretWhole && f.secret != secretURL {
		return fmt.Errorf("config: %s: tag secret:%q is not true or url", name, f.secret)
	}
	for _, other := range l.fields {
		if other.name == name {
			return fmt.Errorf("config: two fields read %s", name)
		}
		// Package env names a bad field by its Go name alone.
		if other.goName == f.goName {
			return fmt.Errorf("config: %s and %s are both called %s", other.name, name, f.goName)
		}
	}
	for _, bound := range []string{f.min, f.max} {
		if bound == "" {
			continue
		}
		if _, err := parseBound(value.Type(), bound); err != nil {
			return fmt.Errorf("config: %s: bound %q: %w", name, bound, err)
		}
	}
	l.fields = append(l.fields, f)
	return nil
}
