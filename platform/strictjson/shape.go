package strictjson

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
)

// maxMembers is how many members an object may have: the set of those that were seen is a word.
const maxMembers = 64

// shape holds what the inspection of a document needs to know of a Go type. A nil shape knows nothing.
type shape struct {
	members  map[string]*member // of a struct
	names    []string           // of the members, by bit
	required uint64             // the bits of the members that may not be missing
	elem     *shape             // of an array
}

// member is one field of a struct.
type member struct {
	bit   uint64
	shape *shape
}

//nolint:gochecknoglobals // reflect.Type -> *shape: a cache of facts about the program's own types
var shapes sync.Map

// shapeOf returns the shape of what pointer, the type of a pointer to a struct, points to.
func shapeOf(pointer reflect.Type) (*shape, error) {
	if known, ok := shapes.Load(pointer); ok {
		if s, ok := known.(*shape); ok {
			return s, nil
		}
	}
	if pointer == nil || pointer.Kind() != reflect.Pointer || pointer.Elem().Kind() != reflect.Struct {
		return nil, fmt.Errorf("strictjson: decode into %v, which is no pointer to a struct", pointer)
	}
	s, err := newShape(pointer.Elem(), make(map[reflect.Type]*shape))
	if err != nil {
		return nil, err
	}
	shapes.Store(pointer, s)
	return s, nil
}

// newShape makes the shape of t; made holds those that are being made, for types that contain themselves.
func newShape(t reflect.Type, made map[reflect.Type]*shape) (*shape, error) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if s := made[t]; s != nil {
		return s, nil
	}
	s := new(shape)
	made[t] = s
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		elem, err := newShape(t.Elem(), made)
		s.elem = elem
		return s, err
	case reflect.Struct:
		return s, s.addMembers(t, made)
	default:
		return s, nil
	}
}

func (s *shape) addMembers(t reflect.Type, made map[reflect.Type]*shape) error {
	s.members = make(map[string]*member, t.NumField())
	for field := range t.Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "-" && options == "" || !field.IsExported() {
			continue
		}
		if name == "" {
			name = field.Name
		}
		if len(s.names) == maxMembers {
			return fmt.Errorf("strictjson: %v has more than %d members", t, maxMembers)
		}
		child, err := newShape(field.Type, made)
		if err != nil {
			return err
		}
		m := &member{bit: 1 << len(s.names), shape: child}
		s.members[name] = m
		s.names = append(s.names, name)
		if !strings.Contains(options, "omitempty") && !strings.Contains(options, "omitzero") {
			s.required |= m.bit
		}
	}
	return nil
}
