package attempt

import (
	"iter"
	"slices"
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

// Distinct is Lines with each item once, in the order of their bytes.
func (s *Items) Distinct() string {
	lines := s.Lines()
	last, ascending := "", true
	for line := range strings.SplitSeq(lines, "\n") {
		if line <= last && last != "" {
			ascending = false
			break
		}
		last = line
	}
	if ascending {
		return lines
	}
	all := strings.Split(lines, "\n")
	slices.Sort(all)
	return strings.Join(slices.Compact(all), "\n")
}

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
