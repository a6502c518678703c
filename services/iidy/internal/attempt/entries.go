package attempt

import (
	"iter"
	"strconv"
	"strings"
)

// Entries holds the entries of a page or a claim, in byte order, as one text: a line for each with its item, a space
// and its attempts. 10,000 of the longest items are 20 MB, so they are held once, and encoded while they are written.
// Close must be called afterwards.
//
// The zero value is empty.
type Entries struct {
	lines string
	free  func()
}

// NewEntries returns the entries of lines, separated by line breaks without one at the end. Close calls free unless it
// is nil.
func NewEntries(lines string, free func()) Entries { return Entries{lines, free} }

// Lines returns the text without a line break at its end, "" for no entries.
func (e Entries) Lines() string { return e.lines }

// All returns the entries in order. Their items share the text's memory.
func (e Entries) All() iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		if e.lines == "" {
			return
		}
		for line := range strings.SplitSeq(e.lines, "\n") {
			if !yield(entryOf(line)) {
				return
			}
		}
	}
}

// Len returns the number of entries.
func (e Entries) Len() int {
	if e.lines == "" {
		return 0
	}
	return strings.Count(e.lines, "\n") + 1
}

// Last returns the last item, "" for no entries.
func (e Entries) Last() Item { return entryOf(e.lines[strings.LastIndexByte(e.lines, '\n')+1:]).Item }

// Close releases the entries' share of the replica's memory budget. It must be called once.
func (e Entries) Close() {
	if e.free != nil {
		e.free()
	}
}

// entryOf parses a line. An item may contain spaces; the last space is the separator.
func entryOf(line string) Entry {
	at := max(strings.LastIndexByte(line, ' '), 0)
	attempts, _ := strconv.ParseInt(strings.TrimPrefix(line[at:], " "), 10, 64) // the repository wrote it
	return Entry{Item(line[:at]), attempts}
}
