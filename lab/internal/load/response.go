package load

import (
	"bytes"
	"errors"
	"math"
)

// maxHeader bounds the status line and header of one response; the servers under test answer with a few hundred bytes.
const maxHeader = 16 << 10

var (
	errMalformed = errors.New("the response is not valid HTTP/1.1")
	errCut       = errors.New("the connection was closed before the response was complete")
)

// stage is the part of a response that the next byte belongs to.
type stage uint8

const (
	stageHeader stage = iota
	stageLength       // a body of known length
	stageClose        // a body that ends with the connection
	stageChunkSize
	stageChunkData
	stageChunkEnd // the line break behind a chunk
	stageTrailer
	stageDone
)

// response scans one response at a time. The body is skipped, not kept: the exactness of the run is checked by the sum of all counters
// afterwards, so the generator need not spend CPU on each value.
type response struct {
	status    int
	keepAlive bool
	stage     stage
	remaining int64 // bytes of the body or chunk that are still to come
	line      int   // bytes of the current chunk-size or trailer line
	digits    int   // hexadecimal digits of the chunk size so far
}

// reset prepares for the next response on the connection.
func (r *response) reset() { *r = response{} }

// feed takes all bytes that were received and not consumed yet and returns how many of them it consumed. Bytes of an incomplete header
// are left to the caller, who feeds them again with what follows.
func (r *response) feed(data []byte) (int, error) {
	consumed := 0
	for r.stage != stageDone {
		n, err := r.advance(data[consumed:])
		if err != nil {
			return consumed, err
		}

		consumed += n
		if n == 0 {
			break
		}
	}

	if r.stage == stageDone && consumed < len(data) {
		// One request is in flight at a time, so nothing can rightly follow its answer.
		return consumed, errMalformed
	}

	return consumed, nil
}

// advance consumes bytes of one stage; 0 means that more are needed, or that the response is complete.
func (r *response) advance(data []byte) (int, error) {
	switch r.stage {
	case stageHeader:
		return r.header(data)
	case stageLength:
		n := r.skip(data)
		if r.remaining == 0 {
			r.stage = stageDone
		}

		return n, nil
	case stageClose:
		return len(data), nil
	case stageChunkSize:
		return r.chunkSize(data)
	case stageChunkData:
		n := r.skip(data)
		if r.remaining == 0 {
			r.stage = stageChunkEnd
		}

		return n, nil
	case stageChunkEnd:
		return r.chunkEnd(data)
	case stageTrailer:
		return r.trailer(data)
	case stageDone:
	}

	return 0, nil
}

// closed tells the scanner that the server closed the connection; only a body without a length is complete by that.
func (r *response) closed() error {
	if r.stage == stageClose {
		r.stage = stageDone

		return nil
	}

	return errCut
}

func (r *response) skip(data []byte) int {
	n := min(int64(len(data)), r.remaining)
	r.remaining -= n

	return int(n)
}

func (r *response) header(data []byte) (int, error) {
	end := bytes.Index(data, []byte("\r\n\r\n"))
	if end < 0 {
		if len(data) >= maxHeader {
			return 0, errMalformed
		}

		return 0, nil
	}

	head := data[:end+2]
	if err := r.statusLine(head); err != nil {
		return 0, err
	}

	fields, err := scanFields(head[bytes.IndexByte(head, '\n')+1:])
	if err != nil {
		return 0, err
	}

	if r.status < 200 && r.status != 101 {
		return end + 4, nil // an interim response: the real one follows
	}

	r.body(fields)

	return end + 4, nil
}

// statusLine reads "HTTP/1.1 200 OK".
func (r *response) statusLine(head []byte) error {
	const prefix = "HTTP/1."
	if len(head) < len("HTTP/1.1 200\r\n") || string(head[:len(prefix)]) != prefix || head[8] != ' ' {
		return errMalformed
	}

	r.keepAlive = head[7] == '1'
	r.status = 0

	for _, c := range head[9:12] {
		if c < '0' || c > '9' {
			return errMalformed
		}

		r.status = r.status*10 + int(c-'0')
	}

	if r.status < 100 || head[12] != ' ' && head[12] != '\r' {
		return errMalformed
	}

	return nil
}

// fields are the header fields that decide where a response ends (RFC 9112, section 6.3).
type fields struct {
	length     int64 // -1 when absent
	chunked    bool
	close      bool
	persistent bool // Connection: keep-alive, of use to HTTP/1.0 only
}

func scanFields(lines []byte) (fields, error) {
	found := fields{length: -1}

	for len(lines) > 0 {
		end := bytes.IndexByte(lines, '\n')
		if end < 1 || lines[end-1] != '\r' {
			return found, errMalformed
		}

		line := lines[:end-1]
		lines = lines[end+1:]

		colon := bytes.IndexByte(line, ':')
		if colon <= 0 {
			return found, errMalformed
		}

		if err := found.take(line[:colon], line[colon+1:]); err != nil {
			return found, err
		}
	}

	return found, nil
}

// take notes one field. The length of a name is compared first, because that alone rules out nearly every field of a response.
func (f *fields) take(name, value []byte) error {
	switch len(name) {
	case len("content-length"):
		if !equalFold(name, "content-length") {
			return nil
		}

		length, ok := decimal(bytes.TrimSpace(value))
		if !ok || f.length >= 0 && f.length != length {
			return errMalformed
		}

		f.length = length
	case len("transfer-encoding"):
		if equalFold(name, "transfer-encoding") {
			if !equalFold(bytes.TrimSpace(value), "chunked") {
				return errMalformed // the generator does not offer any other coding
			}

			f.chunked = true
		}
	case len("connection"):
		if equalFold(name, "connection") {
			value = bytes.TrimSpace(value)
			f.close = f.close || equalFold(value, "close")
			f.persistent = f.persistent || equalFold(value, "keep-alive")
		}
	}

	return nil
}

func (r *response) body(f fields) {
	r.keepAlive = (r.keepAlive || f.persistent) && !f.close

	switch {
	case r.status == 204 || r.status == 304 || r.status == 101:
		r.stage = stageDone
	case f.chunked:
		r.stage = stageChunkSize
	case f.length == 0:
		r.stage = stageDone
	case f.length > 0:
		r.stage, r.remaining = stageLength, f.length
	default:
		r.stage, r.keepAlive = stageClose, false
	}
}

// chunkSize reads "1a;extension\r\n".
func (r *response) chunkSize(data []byte) (int, error) {
	for i, c := range data {
		if c == '\n' {
			return i + 1, r.startChunk()
		}

		if r.line++; r.line > maxHeader {
			return 0, errMalformed
		}

		digit, ok := hexadecimal(c)

		switch {
		case ok && r.digits == r.line-1: // still in the leading run of digits
			if r.remaining > math.MaxInt64>>4 {
				return 0, errMalformed
			}

			r.remaining = r.remaining<<4 | digit
			r.digits++
		case r.digits == 0:
			return 0, errMalformed
		}
	}

	return len(data), nil
}

func (r *response) startChunk() error {
	if r.digits == 0 {
		return errMalformed
	}

	r.line, r.digits = 0, 0
	r.stage = stageChunkData

	if r.remaining == 0 {
		r.stage = stageTrailer
	}

	return nil
}

func (r *response) chunkEnd(data []byte) (int, error) {
	for i, c := range data {
		if c == '\n' {
			r.line, r.stage = 0, stageChunkSize

			return i + 1, nil
		}

		if r.line++; c != '\r' || r.line > 1 {
			return 0, errMalformed
		}
	}

	return len(data), nil
}

// trailer skips lines up to and including the empty one.
func (r *response) trailer(data []byte) (int, error) {
	for i, c := range data {
		switch c {
		case '\r':
		case '\n':
			if r.line == 0 {
				r.stage = stageDone

				return i + 1, nil
			}

			r.line = 0
		default:
			if r.line++; r.line > maxHeader {
				return 0, errMalformed
			}
		}
	}

	return len(data), nil
}

// equalFold compares with a lower-case ASCII word.
func equalFold(value []byte, lower string) bool {
	if len(value) != len(lower) {
		return false
	}

	for i := range value {
		c := value[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}

		if c != lower[i] {
			return false
		}
	}

	return true
}

// decimal reads a non-negative number of at most 18 digits.
func decimal(value []byte) (int64, bool) {
	if len(value) == 0 || len(value) > 18 {
		return 0, false
	}

	var n int64

	for _, c := range value {
		if c < '0' || c > '9' {
			return 0, false
		}

		n = n*10 + int64(c-'0')
	}

	return n, true
}

func hexadecimal(c byte) (int64, bool) {
	switch {
	case '0' <= c && c <= '9':
		return int64(c - '0'), true
	case 'a' <= c && c <= 'f':
		return int64(c-'a') + 10, true
	case 'A' <= c && c <= 'F':
		return int64(c-'A') + 10, true
	default:
		return 0, false
	}
}
