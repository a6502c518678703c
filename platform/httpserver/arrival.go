package httpserver

import (
	"container/list"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/rowlock/rowlock/platform/problem"
)

const (
	// readAhead is how much of a body is read into memory before its request has a permit: all of a short body. At most
	// a byte more is read, to see that a body has ended.
	readAhead = 64 << 10
	// bodyTime is what a body has to arrive from the end of its header, or to begin with where it is longer.
	bodyTime = 5 * time.Second
	// arrivingPerPermit bounds the bodies that are awaited at once, as a multiple of MAX_IN_FLIGHT.
	arrivingPerPermit = 8
	// arrivedBytes bounds the memory for bodies of requests without a permit.
	arrivedBytes = 32 << 20
	// The first read of a body has at most largestRead bytes, and smallestRead where its length is not declared.
	smallestRead = 512
	largestRead  = 4 << 10
)

// errCut is why a body was not awaited longer, although its time was not over.
var errCut = errors.New("others needed the place of a body that had not arrived")

// notReceived returns what the client learns about a body that could not be read, or was not awaited longer.
func notReceived(err error) error {
	if errors.Is(err, errCut) {
		return problem.Overloaded.New(
			"The body had not arrived when other requests needed its place. Nothing was applied; try again.",
			problem.Cause(err))
	}
	return BodyError(err)
}

// arrivals are the bodies of requests without a permit: those that are awaited, oldest first, and the memory of all.
// Where they become too many or too large, the one that was awaited longest is cut, so that no number of slow clients
// keeps out a client whose body arrives at once.
type arrivals struct {
	mostAwaited int
	mostBytes   int

	mu      sync.Mutex
	awaited list.List // of *arrival
	bytes   int
	armed   bool // late will be called
}

// arrival is the body of one request. Its methods are not for concurrent use; another request may cut it.
type arrival struct {
	all    *arrivals
	writer http.ResponseWriter
	start  time.Time
	place  *list.Element // nil: not awaited
	bytes  int
	err    error // why it was cut

	data  []byte
	rest  io.ReadCloser
	whole bool // there is no rest
}

// await enters a. It may cut others, or a itself.
func (a *arrival) await() {
	a.all.mu.Lock()
	defer a.all.mu.Unlock()
	a.place = a.all.awaited.PushBack(a)
	if a.all.awaited.Len() > a.all.mostAwaited {
		a.all.cutOldest(errCut)
	}
	if !a.all.armed {
		a.all.armed = true
		time.AfterFunc(bodyTime, a.all.late)
	}
}

// reserve adds n bytes to those that a holds. It may cut others, or a itself, for which it returns an error.
func (a *arrival) reserve(n int) error {
	a.all.mu.Lock()
	defer a.all.mu.Unlock()
	if a.err != nil {
		return a.err
	}
	a.bytes += n
	a.all.bytes += n
	for a.all.bytes > a.all.mostBytes && a.all.awaited.Len() > 0 {
		a.all.cutOldest(errCut)
	}
	return a.err
}

// end takes a out of those that are awaited, and returns an error when it was cut before.
func (a *arrival) end() error {
	a.all.mu.Lock()
	defer a.all.mu.Unlock()
	if a.place != nil {
		a.all.awaited.Remove(a.place)
		a.place = nil
	}
	return a.err
}

// release gives back what a reserved, because its request has a permit or ends. A nil a has nothing.
func (a *arrival) release() {
	if a == nil {
		return
	}
	a.all.mu.Lock()
	defer a.all.mu.Unlock()
	a.all.bytes -= a.bytes
	a.bytes = 0
}

// cutOldest ends the read of the body that was awaited longest. The caller has the lock.
func (s *arrivals) cutOldest(why error) {
	a, _ := s.awaited.Remove(s.awaited.Front()).(*arrival) // it holds nothing else
	s.bytes -= a.bytes
	a.place, a.bytes, a.err = nil, 0, why
	// The error is that there is no connection, as in tests without one.
	_ = http.NewResponseController(a.writer).SetReadDeadline(time.Unix(1, 0))
}

// late cuts the bodies whose time is over, and comes back for the next one.
func (s *arrivals) late() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.awaited.Len() > 0 {
		oldest, _ := s.awaited.Front().Value.(*arrival) // it holds nothing else
		if left := time.Until(oldest.start.Add(bodyTime)); left > 0 {
			time.AfterFunc(left, s.late)
			return
		}
		s.cutOldest(os.ErrDeadlineExceeded)
	}
	s.armed = false
}

// read reads body into memory, wholly or its first readAhead bytes. declared is its length, -1 where it is not known;
// most is the longest that body lets through. An error is that of the connection, of the body's limit, or says that it
// was cut.
func (a *arrival) read(body io.ReadCloser, declared, most int64) error {
	a.await()
	err := a.fill(body, most > readAhead && (declared < 0 || declared > readAhead), firstRead(declared))
	if cut := a.end(); cut != nil {
		return cut
	}
	return err
}

// firstRead returns the memory with which to begin: a byte more than the body has, to see its end.
func firstRead(declared int64) int {
	if declared < 0 {
		return smallestRead
	}
	return int(min(declared+1, largestRead))
}

func (a *arrival) fill(body io.ReadCloser, long bool, size int) error {
	for a.rest = body; len(a.data) <= readAhead; size = min(2*size, readAhead+1) {
		if err := a.reserve(size - cap(a.data)); err != nil {
			return err
		}
		a.data = append(make([]byte, 0, size), a.data...)
		for len(a.data) < size {
			n, err := body.Read(a.data[len(a.data):size])
			a.data = a.data[:len(a.data)+n]
			if errors.Is(err, io.EOF) {
				a.whole = true
				return nil
			}
			if err != nil {
				return err //nolint:wrapcheck // the body's, for BodyError
			}
			if long && a.steady() {
				return nil
			}
		}
	}
	return nil
}

// steady reports whether a long body, after half of bodyTime, comes at MinRate: what a slow client uploads may take
// minutes, as long as it comes.
func (a *arrival) steady() bool {
	took := time.Since(a.start)
	return took > bodyTime/2 && float64(len(a.data)) >= MinRate*took.Seconds()
}

// Read implements io.Reader.
func (a *arrival) Read(p []byte) (int, error) {
	switch {
	case len(a.data) > 0:
		n := copy(p, a.data)
		a.data = a.data[n:]
		return n, nil
	case a.whole:
		return 0, io.EOF
	}
	return a.rest.Read(p) //nolint:wrapcheck // an io.Reader returns what it got
}

// Close implements io.Closer.
func (a *arrival) Close() error { return a.rest.Close() } //nolint:wrapcheck // the connection's
