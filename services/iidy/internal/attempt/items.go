package attempt

import (
	"iter"
	"strings"
)

// Items is a number of items in the one encoding that needs no escapes: each
// followed by a line break, which no item holds. So a million of them cost a few
// allocations, and the database can be handed them as they are. An item may be in
// it twice; whatever is done with it is done once.
//
// The zero value is empty.
type Items struct {
	text []byte
	n    int
}

// Add appends an item that CheckItem has accepted.
func (s *Items) Add(item []byte) {
	s.text = append(append(s.text, item...), '\n')
	s.n++
}

// Len is the number of items, repeated ones included.
func (s *Items) Len() int { return s.n }

// Size is the length of the encoding in bytes.
func (s *Items) Size() int { return len(s.text) }

// Lines is the encoding without the last line break; empty when there is no item.
func (s *Items) Lines() string { return string(s.text[:max(len(s.text)-1, 0)]) }

// All are the items in the order in which they were added.
func (s *Items) All() iter.Seq[Item] {
	return func(yield func(Item) bool) {
		for line := range strings.Lines(string(s.text)) {
			if !yield(Item(line[:len(line)-1])) {
				return
			}
		}
	}
}

// Reset empties it and keeps its memory.
func (s *Items) Reset() { s.text, s.n = s.text[:0], 0 }

// ItemsOf are those items; for tests and for a single one.
func ItemsOf(items ...Item) *Items {
	s := new(Items)
	for _, item := range items {
		s.Add([]byte(item))
	}
	return s
}
