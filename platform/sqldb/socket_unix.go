//go:build unix

package sqldb

import (
	"errors"
	"syscall"
)

// probeIdle reports whether an idle socket is open with nothing to read, by reading
// from it without waiting. A server sends an idle session nothing but its end (57P01,
// then FIN) or a changed setting; in both cases a new connection is the safe choice,
// so the byte that is consumed here is never missed.
func (s *socket) probeIdle() bool {
	if s.raw == nil {
		return true
	}
	open := false
	// Control, not Read: Read honours the deadline of the last statement.
	err := s.raw.Control(func(fd uintptr) {
		var b [1]byte
		_, err := syscall.Read(int(fd), b[:])
		open = errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR)
	})
	return err == nil && open
}
