package attempt

import (
	"errors"
	"io"
	"math"
	"time"
)

// Source yields the items of a batch one after the other.
type Source interface {
	// Next returns the next item, valid until the following call, and io.EOF after
	// the last. Any other error fails the batch whole; ErrTooLong stands for an item
	// that is longer than MaxBytes.
	Next() ([]byte, error)
	// Place names the position of the last item as the sender counts: "line 3".
	Place() string
}

const (
	// partTime bounds how long a part of a long batch is gathered, so that the
	// database session is not taken for idle while a slow source is read.
	partTime = time.Second
	noLimit  = time.Duration(math.MaxInt64)
)

// batch reads and checks the items of a source, a part at a time.
type batch struct {
	list   List
	source Source
	items  Items // of the current part
	passed bool  // the current part was returned by next
	ended  bool  // the source has no further item
}

// next returns the part that has been read, and on further calls the parts that
// follow, and io.EOF after the last.
func (b *batch) next() (*Items, error) {
	if b.passed {
		b.items.Reset()
		if !b.ended {
			if err := b.read(partTime); err != nil {
				return nil, err
			}
		}
	}
	b.passed = true
	if b.items.Len() == 0 {
		return nil, io.EOF
	}
	return &b.items, nil
}

// read appends items until the source ends, the limits of a batch in memory are
// exceeded, or the time is over.
func (b *batch) read(limit time.Duration) error {
	begin := time.Now()
	for b.items.Len() <= MaxBatch && b.items.Size() <= MaxBatchBytes && (b.items.Len() == 0 || time.Since(begin) < limit) {
		item, err := b.source.Next()
		if errors.Is(err, io.EOF) {
			b.ended = true
			return nil
		}
		if err == nil {
			err = checkItem(b.list, item)
		}
		if errors.Is(err, ErrInvalidItem) || errors.Is(err, ErrTooLong) {
			return &PlaceError{Place: b.source.Place(), Err: err}
		}
		if err != nil {
			return err
		}
		b.items.Add(item)
	}
	return nil
}
