package telemetry

import (
	"sync"
	"time"
)

// Sparse limits log lines that may come by the thousand: it passes a number of them in each interval, and the first
// line of the next interval can say how many were omitted.
type Sparse struct {
	every time.Duration
	most  int

	mu      sync.Mutex
	began   time.Time
	passed  int
	omitted int
}

// NewSparse returns a Sparse that lets most lines pass in each interval.
func NewSparse(most int, every time.Duration) *Sparse { return &Sparse{every: every, most: most} }

// Allow reports whether a line may be written now, and how many were omitted since the last one.
func (s *Sparse) Allow() (omitted int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.began.IsZero() || now.Sub(s.began) >= s.every {
		s.began, s.passed = now, 0
	}

	if s.passed == s.most {
		s.omitted++
		return 0, false
	}

	s.passed++
	omitted, s.omitted = s.omitted, 0
	return omitted, true
}
