package attempt

import (
	"slices"
	"strings"
)

// Items holds items as one text, each followed by a line break, which no item
// contains. A million items cost a few allocations, and the database takes the text
// unchanged. An item may be repeated; a change applies to it once.
//
// The zero value is empty.
type Items struct {
	text []byte
	n    int
}

// ItemsOf returns the given items.
func ItemsOf(items ...Item) *Items {
	s := new(Items)
	for _, item := range items {
		s.Add([]byte(item))
	}
	return s
}

// Add appends a valid item.
func (s *Items) Add(item []byte) {
	s.text = append(append(s.text, item...), '\n')
	s.n++
}

// Len returns the number of items, repeated ones included.
func (s *Items) Len() int { return s.n }

// Size returns the length of the text in bytes.
func (s *Items) Size() int { return len(s.text) }

// Lines returns the text without its last line break, "" for no items.
func (s *Items) Lines() string { return string(s.text[:max(len(s.text)-1, 0)]) }

// Distinct returns lines of the items, each once and in byte order.
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

// Spooled implements Batch: false.
func (*Items) Spooled() bool { return false }

// Load implements Batch.
func (s *Items) Load() (*Items, error) { return s, nil }

// Reset removes all items and keeps the memory.
func (s *Items) Reset() { s.text, s.n = s.text[:0], 0 }
