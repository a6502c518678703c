package main

import (
	"fmt"
	"io"
	"os"
	"sync"
)

// screen is where a run says how it goes: lines that stay, and on a terminal one below
// them that is written over.
type screen struct {
	out      io.Writer
	terminal bool

	mu   sync.Mutex
	live bool // there is a line to write over
}

// isTerminal tells whether somebody looks.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// clearLine goes to the beginning of the line and removes what stands there.
const clearLine = "\r\x1b[K"

// say writes a line that stays.
func (s *screen) say(format string, args ...any) { //nolint:goprintffuncname // as say
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live {
		_, _ = io.WriteString(s.out, clearLine) // nobody to read it is no reason to stop
		s.live = false
	}
	say(s.out, format, args...)
}

// liveLine writes the line that is written over; nil where there is no terminal.
func (s *screen) liveLine() func(line string) {
	if !s.terminal {
		return nil
	}
	return func(line string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		const width = 160 // a longer one would wrap, and stay
		runes := []rune(line)
		_, _ = fmt.Fprint(s.out, clearLine+string(runes[:min(len(runes), width)]))
		s.live = true
	}
}
