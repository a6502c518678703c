package httpserver

import (
	"container/list"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/rowlock/rowlock/platform/problem"
)

const (
	// readAhead is how much of a body is read into memory before its request has a permit: all of a short body, and one
	// byte more to detect its end.
	readAhead = 64 << 10
	// bodyTime bounds the arrival of a short body, counted from the end of the header. A long one must begin within it.
	bodyTime = 5 * time.Second
	// arrivingPerPermit bounds the bodies that are awaited at once, as a multiple of MAX_IN_FLIGHT.
	arrivingPerPermit = 8
	// arrivedBytes bounds the memory for bodies of requests without a permit.
	arrivedBytes = 32 << 20
	// The first read of a body has at most largestRead bytes, or smallestRead if its length is not declared.
	smallestRead = 512
	largestRead  = 4 << 10
)

// errCut is the error of a body that was cut in favour of others before its time was over.
var errCut = errors.New("the body had not arrived when others needed its memory")

// notReceived returns the client's error for a body that could not be read or was cut.
func notReceived(err error) error {
	if errors.Is(err, errCut) {
		return problem.Overloaded.New(
			"The body had not arrived when other requests needed its memory. Nothing was applied; try again.",
			problem.Cause(err))
	}
	return BodyError(err)
}

// arrivals holds the bodies of requests without a permit: those that are awaited, oldest first, and the memory of all.
// If they become too many or too large, the one awaited longest is cut. So no number of slow clients keeps out a client
// whose body arrives at once.
type arrivals struct {
	mostAwaited int
	mostBytes   int

	mu      sync.Mutex
	awaited list.List // of *arrival
	bytes   int
}

// arrival is the body of one request. Its methods are not safe for concurrent use; another request may cut it.
type arrival struct {
	all    *arrivals
	writer http.ResponseWriter
	start  time.Time
	place  *list.Element // nil: not awaited
	late   *time.Timer
	bytes  int
	err    error // why it was cut

	data  []byte // read, but not by the handler
	rest  io.ReadCloser
	whole bool // there is no rest
}

// await adds a to the awaited bodies. This may cut others, or a.
func (a *arrival) await() {
	a.all.mu.Lock()
	defer a.all.mu.Unlock()
	a.place = a.all.awaited.PushBack(a)
	a.late = time.AfterFunc(time.Until(a.start.Add(bodyTime)), a.isLate)
	if a.all.awaited.Len() > a.all.mostAwaited {
		a.all.cutOldest()
	}
}

// isLate cuts a if it has not arrived in time.
func (a *arrival) isLate() {
	a.all.mu.Lock()
	defer a.all.mu.Unlock()
	if a.place != nil {
		a.cut(os.ErrDeadlineExceeded)
	}
}

// reserve adds n bytes to the memory of a. This may cut others, or a; in that case it returns an error.
func (a *arrival) reserve(n int) error {
	a.all.mu.Lock()
	defer a.all.mu.Unlock()
	if a.err != nil {
		return a.err
	}

	a.bytes += n
	a.all.bytes += n
	for a.all.bytes > a.all.mostBytes && a.all.awaited.Len() > 0 {
		a.all.cutOldest()
	}
	return a.err
}

// end removes a from the awaited bodies. It returns an error if a was cut.
func (a *arrival) end() error {
	a.late.Stop()
	a.all.mu.Lock()
	defer a.all.mu.Unlock()
	if a.place != nil {
		a.all.awaited.Remove(a.place)
		a.place = nil
	}
	return a.err
}

// release returns the memory of a, because its request has a permit or has ended. A nil a has none.
func (a *arrival) release() {
	if a == nil {
		return
	}
	a.all.mu.Lock()
	defer a.all.mu.Unlock()
	a.all.bytes -= a.bytes
	a.bytes = 0
}

// cutOldest cuts the body that was awaited longest. The caller holds the lock.
func (s *arrivals) cutOldest() {
	oldest, _ := s.awaited.Front().Value.(*arrival) // it holds nothing else
	oldest.cut(errCut)
}

// cut ends the read of an awaited body. The caller holds the lock.
func (a *arrival) cut(why error) {
	a.all.awaited.Remove(a.place)
	a.all.bytes -= a.bytes
	a.place, a.bytes, a.err = nil, 0, why
	// It fails without a connection, as in some tests.
	_ = http.NewResponseController(a.writer).SetReadDeadline(time.Unix(1, 0))
}

// read reads the body into memory, either all of it or its first readAhead bytes. declared is its length, -1 if
// unknown; most is the longest that is let through. An error comes from the connection or the body's limit, or says
// that the body was cut.
func (a *arrival) read(declared, most int64) error {
	a.await()
	err := a.fill(most > readAhead && (declared < 0 || declared > readAhead), firstRead(declared))
	if cut := a.end(); cut != nil {
		return cut
	}
	return err
}

// firstRead returns the initial memory for a body: one byte more than its length, to detect its end.
func firstRead(declared int64) int {
	if declared < 0 {
		return smallestRead
	}
	return int(min(declared+1, largestRead))
}

// fill reads until the body ends, readAhead is exceeded, or a long body arrives steadily. It starts with size bytes of
// memory and doubles them, because most bodies are small.
func (a *arrival) fill(long bool, size int) error {
	for ; len(a.data) <= readAhead; size = min(2*size, readAhead+1) {
		if err := a.reserve(size - cap(a.data)); err != nil {
			return err
		}

		a.data = append(make([]byte, 0, size), a.data...)
		for len(a.data) < size {
			n, err := a.rest.Read(a.data[len(a.data):size])
			a.data = a.data[:len(a.data)+n]
			if errors.Is(err, io.EOF) {
				a.whole = true
				return nil
			}
			if err != nil {
				return err
			}
			if long && a.steady() {
				return nil
			}
		}
	}
	return nil
}

// steady reports whether half of bodyTime has passed and the body arrives at minRate or faster: a slow upload may take
// minutes, as long as it keeps arriving.
func (a *arrival) steady() bool {
	took := time.Since(a.start)
	return took > bodyTime/2 && float64(len(a.data)) >= minRate*took.Seconds()
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

	n, err := a.rest.Read(p)
	a.whole = errors.Is(err, io.EOF)
	return n, err
}

// Close implements io.Closer.
func (a *arrival) Close() error { return a.rest.Close() }

// leaveBody notes, before the answer's header is written, whether the body has arrived. If not, an HTTP/1 connection
// must be closed, for net/http to answer before it has read the rest. With HTTP/2 only the stream ends.
func (r *request) leaveBody() {
	in := r.Request()
	arrived := r.body == nil || r.body == http.NoBody || r.arrival != nil && r.arrival.whole
	if !arrived && in.ProtoMajor < 2 {
		r.left = true
		r.Response().Header().Set(echo.HeaderConnection, "close")
	}
}

// readOn receives the rest of a body that was left, for up to bodyTime, after the answer: many clients read nothing
// before they have sent everything, and closing a connection with unread bytes resets it, which destroys the answer.
// Rests are awaited as bodies are, the oldest giving way, but apart from them: those who may not call take no place
// from those who may.
func (r *request) readOn() {
	const most = 64 << 20
	isCut := r.arrival != nil && r.arrival.err != nil
	isAsking := r.arrival == nil && r.Request().Header.Get("Expect") != "" // for 100 Continue: it has sent nothing
	if !r.left || r.aborted || isCut || isAsking {
		return
	}

	conn := http.NewResponseController(r.Response())
	rest := &arrival{all: &r.server.rests, writer: r.Response(), start: time.Now()}
	if conn.Flush() != nil || conn.SetReadDeadline(rest.start.Add(bodyTime)) != nil {
		return // there is no connection to close
	}
	rest.await()
	_, _ = io.CopyN(io.Discard, r.body, most) // any error ends it
	_ = rest.end()
}
