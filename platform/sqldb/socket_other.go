//go:build !unix

package sqldb

// probeIdle returns true: this platform cannot read without waiting, and the first
// statement finds a closed connection instead.
func (s *socket) probeIdle() bool { return true }
