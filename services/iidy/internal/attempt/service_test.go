package attempt_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"iter"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
	"github.com/rowlock/rowlock/services/iidy/internal/spool"
)

// source yields n items with a common prefix, and then err.
type source struct {
	prefix   string
	n, given int
	err      error
}

func (s *source) Next() ([]byte, error) {
	if s.given == s.n {
		return nil, s.err
	}
	s.given++
	return fmt.Appendf(nil, "%s%08d", s.prefix, s.given), nil
}

func (s *source) Place() string { return fmt.Sprintf("item %d", s.given) }

// recorder records how a batch reaches the repository.
type recorder struct {
	attempt.Repository

	calls, staged, longest int // the longest part in bytes
	spooled                bool
	items                  hash.Hash
}

func (*recorder) Get(context.Context, attempt.List, attempt.Item) (int64, error) { return 0, nil }

func (*recorder) Exists(context.Context, attempt.List) (bool, error) { return true, nil }

func (r *recorder) ApplyBatch(
	_ context.Context, _ attempt.Change, _ attempt.List, batch attempt.Batch, _ attempt.Claim,
) (int64, error) {
	r.calls++
	r.spooled = batch.Spooled()
	for range 2 { // the second time is a transaction that is run again
		items, err := batch.Load()
		if err != nil || items.Len() != batch.Len() {
			return 0, fmt.Errorf("%d of %d items: %w", items.Len(), batch.Len(), err)
		}
		r.items.Reset()
		_, _ = io.WriteString(r.items, items.Lines()+"\n")
	}
	return int64(batch.Len()), nil
}

func (r *recorder) ApplyStaged(
	_ context.Context, _ attempt.Change, _ attempt.List, parts iter.Seq2[*attempt.Items, error], _ attempt.Claim,
) (n int64, err error) {
	r.calls++
	r.staged++
	r.spooled = true
	for range 2 { // the second time is a transaction that is run again
		n = 0
		r.items.Reset()
		for items, err := range parts {
			if err != nil {
				return 0, err
			}
			n += int64(items.Len())
			r.longest = max(r.longest, items.Size())
			_, _ = io.WriteString(r.items, items.Lines()+"\n")
		}
	}
	return n, nil
}

// newSpool returns a spool with room for so many bytes.
func newSpool(t *testing.T, room int64) *spool.Spool {
	t.Helper()
	s, err := spool.New(t.TempDir(), room, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A batch is staged exactly when it is longer than what is held in memory. Its items reach the repository whole, in
// order, in bounded parts, and as often as it reads them; no file is left.
func TestLongBatchesAreStaged(t *testing.T) {
	t.Parallel()
	const long = attempt.MaxBatchBytes/1908 + 10
	for _, c := range []struct {
		items   source
		spooled bool
		staged  int
	}{
		{source{n: 0}, false, 0},
		{source{n: 1000}, false, 0},
		{source{n: attempt.MaxBatch}, true, 0},
		{source{n: attempt.MaxBatch + 1}, true, 1},
		{source{n: 3*attempt.MaxBatch + 5}, true, 1},
		{source{n: long - 20, prefix: strings.Repeat("x", 1900)}, true, 0},
		{source{n: long, prefix: strings.Repeat("x", 1900)}, true, 1},
	} {
		repo, files := &recorder{items: sha256.New()}, newSpool(t, 4<<20)
		c.items.err = io.EOF
		got, err := attempt.NewService(repo, files).ApplyBatch(t.Context(), attempt.Add, "l", &c.items, "")
		if err != nil || got != int64(c.items.n) || repo.staged != c.staged || repo.calls != min(c.items.n, 1) {
			t.Errorf("%d items: %d added, %+v, %v", c.items.n, got, repo, err)
		}
		if repo.spooled != c.spooled || files.Free() != 4<<20 || repo.longest > 256<<10 {
			t.Errorf("%d items: spooled %t, %d bytes are free, the longest part has %d bytes",
				c.items.n, repo.spooled, files.Free(), repo.longest)
		}
		want := sha256.New()
		for i := range c.items.n {
			_, _ = fmt.Fprintf(want, "%s%08d\n", c.items.prefix, i+1)
		}
		if !bytes.Equal(repo.items.Sum(nil), want.Sum(nil)) {
			t.Errorf("%d items: the repository got others", c.items.n)
		}
	}
}

// A batch with an error, of any length, does not reach the repository, and leaves no file.
func TestErrorsFailABatch(t *testing.T) {
	t.Parallel()
	errSource := errors.New("the source broke off")
	for name, c := range map[string]struct {
		items source
		room  int64
		want  error
	}{
		"empty":                {source{err: errSource}, 1 << 20, errSource},
		"short":                {source{n: 5, err: errSource}, 1 << 20, errSource},
		"spooled":              {source{n: attempt.MaxBatch, err: errSource}, 1 << 20, errSource},
		"long":                 {source{n: 2*attempt.MaxBatch + 7, err: errSource}, 1 << 20, errSource},
		"longer than the room": {source{n: 2 * attempt.MaxBatch, err: io.EOF}, 100 << 10, attempt.ErrSpoolFull},
	} {
		repo, files := new(recorder), newSpool(t, c.room)
		added, err := attempt.NewService(repo, files).ApplyBatch(t.Context(), attempt.Add, "l", &c.items, "")
		if !errors.Is(err, c.want) || repo.calls != 0 || files.Free() != c.room {
			t.Errorf("%s: %d added, %v, %d calls, %d bytes are free", name, added, err, repo.calls, files.Free())
		}
	}
	service := attempt.NewService(new(recorder), nil)
	_, err := service.ApplyBatch(t.Context(), attempt.Add, "l", &source{n: 3, prefix: "\n"}, "")
	place, ok := errors.AsType[*attempt.PlaceError](err)
	if !ok || place.Place != "item 1" || !errors.Is(err, attempt.ErrInvalidItem) {
		t.Errorf("an invalid item: %v", err)
	}
}
