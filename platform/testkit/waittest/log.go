package waittest

import (
	"bytes"
	"sync"
)

// Log is a log that can be read while it is written. The zero value is empty.
type Log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write appends to the log; it never fails.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// String returns everything that was written.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}
