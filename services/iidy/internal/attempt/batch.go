package attempt

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
)

// Source yields the items of a batch one after the other.
type Source interface {
	// Next returns the next item, valid until the following call, and io.EOF after
	// the last. Any other error fails the whole batch; ErrTooLong means an item
	// longer than MaxBytes.
	Next() ([]byte, error)
	// Place names the position of the last item for the sender: "line 3".
	Place() string
}

const (
	// keptBytes limits the bytes of a batch in memory while it arrives.
	keptBytes = 64 << 10
	// partBytes limits the size of a part of a long batch.
	partBytes = 256 << 10
)

// batch implements Batch. It holds the items of a source: in memory if there are few,
// otherwise in a file of the spool.
type batch struct {
	items Items // not in the file
	file  File  // nil for a short batch
	n     int   // items in the file
	size  int64 // of the file
}

// gather reads and checks all items of the source. The caller closes the batch, even
// after an error.
func (b *batch) gather(list List, source Source, spool Spool) error {
	for {
		item, err := source.Next()
		if errors.Is(err, io.EOF) {
			if b.file == nil {
				return nil
			}
			return b.spill(spool)
		}

		if err == nil {
			err = checkItem(list, item)
		}
		if errors.Is(err, ErrInvalidItem) || errors.Is(err, ErrTooLong) {
			return &PlaceError{Place: source.Place(), Err: err}
		}
		if err != nil {
			return err
		}

		b.items.Add(item)
		if b.items.Size() >= keptBytes || b.items.Len() > MaxBatch {
			if err := b.spill(spool); err != nil {
				return err
			}
		}
	}
}

// spill moves the items from memory to the file.
func (b *batch) spill(spool Spool) error {
	if b.file == nil {
		file, err := spool.Create()
		if err != nil {
			return err
		}
		b.file = file
	}
	if _, err := b.file.Write(b.items.text); err != nil {
		return fmt.Errorf("spool a batch: %w", err)
	}
	b.n += b.items.Len()
	b.size += int64(b.items.Size())
	b.items.Reset()
	return nil
}

// fits reports whether the batch may be held in memory.
func (b *batch) fits() bool { return b.file == nil || b.n <= MaxBatch && b.size <= MaxBatchBytes }

// Len implements Batch, for a batch that fits.
func (b *batch) Len() int { return b.n + b.items.Len() }

// Spooled implements Batch.
func (b *batch) Spooled() bool { return b.file != nil }

// Load implements Batch, for a batch that fits.
func (b *batch) Load() (*Items, error) {
	if b.file == nil {
		return &b.items, nil
	}
	text := make([]byte, b.size)
	if _, err := b.file.ReadAt(text, 0); err != nil {
		return nil, fmt.Errorf("read a spooled batch: %w", err)
	}
	return &Items{text: text, n: b.n}, nil
}

// parts yields the items of the file part by part, each valid until the next.
func (b *batch) parts() iter.Seq2[*Items, error] {
	return func(yield func(*Items, error) bool) {
		text := make([]byte, min(partBytes, b.size))
		for at := int64(0); at < b.size; {
			part := text[:min(partBytes, b.size-at)]
			if _, err := b.file.ReadAt(part, at); err != nil {
				yield(nil, fmt.Errorf("read a spooled batch: %w", err))
				return
			}
			part = part[:bytes.LastIndexByte(part, '\n')+1] // an item is shorter than a part
			if !yield(&Items{text: part, n: bytes.Count(part, []byte{'\n'})}, nil) {
				return
			}
			at += int64(len(part))
		}
	}
}

// close removes the file.
func (b *batch) close() {
	if b.file != nil {
		_ = b.file.Close() // its content is no longer needed
	}
}
