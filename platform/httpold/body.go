package httpold

import (
	"errors"
	"fmt"
	"io"

	"github.com/rowlock/rowlock/platform/problem"
)

// limitedBody is http.MaxBytesReader without an allocation, with the problem as
// its error.
type limitedBody struct {
	body     io.ReadCloser
	left     int64 // what may still be read
	read     int64
	exceeded bool
}

// Read reads the body and fails with BODY_TOO_LARGE at the byte beyond the limit.
func (b *limitedBody) Read(p []byte) (int, error) {
	if b.exceeded {
		return 0, bodyTooLarge(b.read)
	}
	if len(p) == 0 {
		return 0, nil
	}
	if int64(len(p))-1 > b.left { // one more, to tell "just fits" from "too large"
		p = p[:b.left+1]
	}
	n, err := b.body.Read(p)
	if int64(n) > b.left {
		b.exceeded = true
		b.read += b.left
		return int(b.left), bodyTooLarge(b.read)
	}
	b.left -= int64(n)
	b.read += int64(n)
	return n, err //nolint:wrapcheck // an io.Reader returns what it got
}

// Close closes the body.
func (b *limitedBody) Close() error {
	return b.body.Close() //nolint:wrapcheck // an io.Closer returns what it got
}

func bodyTooLarge(limit int64) *problem.Error {
	return problem.BodyTooLarge.New(fmt.Sprintf("The body is larger than %d bytes.", limit))
}

// readAll appends the body to buf. It does not trust a declared length beyond
// what is small: memory follows what was sent, not what was announced.
func readAll(body io.Reader, declared int64, buf []byte) ([]byte, error) {
	const (
		trusted  = 64 << 10
		smallest = 512
	)
	want := min(max(declared, 0), trusted) + 1 // room to meet EOF without growing
	if want = max(want, smallest); int64(cap(buf)-len(buf)) < want {
		grown := make([]byte, len(buf), int64(len(buf))+want)
		copy(grown, buf)
		buf = grown
	}
	for {
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
		n, err := body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if errors.Is(err, io.EOF) {
			return buf, nil
		}
		if err != nil {
			return buf, err //nolint:wrapcheck // the caller makes a problem of it
		}
	}
}
