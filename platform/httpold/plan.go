package httpold

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
)

// shape is what a value must be in JSON.
type shape uint8

const (
	anObject shape = iota
	anArray
	aString
	aBoolean
	anInteger
	aPointer // to what it points
)

// plan is how values of one Go type are read. Plans are made once per type.
type plan struct {
	shape   shape
	typ     reflect.Type
	elem    *plan // of an array or a pointer
	members map[string]member
}

// member is one field of a struct.
type member struct {
	name  string
	plan  *plan
	index int
	bit   uint64 // in the set of members seen
}

// maxMembers is the size of that set.
const maxMembers = 64

//nolint:gochecknoglobals // reflect.Type -> *plan: a cache of facts about the program's own types
var plans sync.Map

func planOf(t reflect.Type) (*plan, error) {
	if known, ok := plans.Load(t); ok {
		if p, ok := known.(*plan); ok {
			return p, nil
		}
	}
	p, err := makePlan(t, make(map[reflect.Type]*plan))
	if err != nil {
		return nil, fmt.Errorf("httpserver: DecodeJSON: %w", err)
	}
	plans.Store(t, p)
	return p, nil
}

// makePlan makes the plan of t; made holds those under way, for types that
// contain themselves.
func makePlan(t reflect.Type, made map[reflect.Type]*plan) (*plan, error) {
	if p := made[t]; p != nil {
		return p, nil
	}
	p := &plan{typ: t}
	made[t] = p
	switch t.Kind() {
	case reflect.Bool:
		p.shape = aBoolean
	case reflect.String:
		p.shape = aString
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		p.shape = anInteger
	case reflect.Slice, reflect.Pointer:
		p.shape = anArray
		if t.Kind() == reflect.Pointer {
			p.shape = aPointer
		}
		elem, err := makePlan(t.Elem(), made)
		if err != nil {
			return nil, err
		}
		p.elem = elem
	case reflect.Struct:
		p.shape = anObject
		if err := p.addMembers(made); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("type %s cannot be read from JSON", t)
	}
	return p, nil
}

func (p *plan) addMembers(made map[reflect.Type]*plan) error {
	p.members = make(map[string]member, p.typ.NumField())
	for i := range p.typ.NumField() {
		field := p.typ.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-":
			continue
		case field.Anonymous || !field.IsExported():
			return fmt.Errorf("field %s.%s is embedded or not exported", p.typ, field.Name)
		case name == "":
			name = field.Name
		}
		if _, twice := p.members[name]; twice || i >= maxMembers {
			return fmt.Errorf("type %s has a member %q twice or more than %d fields", p.typ, name, maxMembers)
		}
		elem, err := makePlan(field.Type, made)
		if err != nil {
			return fmt.Errorf("member %s: %w", name, err)
		}
		p.members[name] = member{name: name, plan: elem, index: i, bit: 1 << i}
	}
	return nil
}

// expected is what a person is told that the value must be.
func (p *plan) expected() string {
	switch p.shape {
	case anObject:
		return "a JSON object"
	case anArray:
		return "an array"
	case aString:
		return "a string"
	case aBoolean:
		return "true or false"
	case anInteger:
		return "a whole number in digits, without fraction or exponent"
	case aPointer:
		return p.elem.expected()
	}
	return "something else"
}
