package spool_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
	"github.com/rowlock/rowlock/services/iidy/internal/spool"
)

func newSpool(t *testing.T, dir string, most int64) (*spool.Spool, *prometheus.Registry) {
	t.Helper()
	reg := prometheus.NewRegistry()
	s, err := spool.New(dir, most, reg)
	if err != nil {
		t.Fatal(err)
	}
	return s, reg
}

func create(t *testing.T, s *spool.Spool) attempt.File {
	t.Helper()
	f, err := s.Create()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// A file has no name from the beginning, keeps what was written, and is gone when it is closed.
func TestFilesAreNeverLeft(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, _ := newSpool(t, dir, 100)
	f := create(t, s)
	for _, text := range []string{"one", "two"} {
		if _, err := f.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	got := make([]byte, 4)
	if _, err := f.ReadAt(got, 2); err != nil || string(got) != "etwo" {
		t.Errorf("read %q, %v", got, err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 0 {
		t.Errorf("in the folder: %v, %v", names, err)
	}
	before := openFiles(t, dir)
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if after := openFiles(t, dir); before != 1 || after != 0 {
		t.Errorf("%d files were open, and %d are after Close", before, after)
	}
}

// openFiles returns how many open files of the process are, or were, in dir.
func openFiles(t *testing.T, dir string) (n int) {
	t.Helper()
	links, err := filepath.Glob("/proc/self/fd/*")
	if err != nil || len(links) == 0 {
		t.Skip("there is no /proc to see open files in")
	}
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && strings.HasPrefix(target, dir) {
			n++
		}
	}
	return n
}

// Files together hold no more than the spool's bytes, to the byte, and give back theirs when they are closed.
func TestBytesAreBounded(t *testing.T) {
	t.Parallel()
	const files, most = 8, 1000
	s, reg := newSpool(t, t.TempDir(), most)
	open, written := make([]attempt.File, files), make([]int, files)
	waittest.Together(t, files, func(i int) error {
		open[i] = create(t, s)
		for {
			n, err := open[i].Write(bytes.Repeat([]byte("x"), 7))
			if errors.Is(err, attempt.ErrSpoolFull) {
				return nil
			}
			if err != nil {
				return err
			}
			written[i] += n
		}
	})
	total := 0
	for _, n := range written {
		total += n
	}
	used, free := apptest.Gathered(t, reg, "iidy_spool_bytes"), s.Free()
	if total > most || int(used) != total || free != int64(most-total) {
		t.Errorf("%d bytes were written, %g are used, %d free", total, used, free)
	}
	for _, f := range open {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	if s.Free() != most {
		t.Errorf("%d bytes are free in the end", s.Free())
	}
	f := create(t, s)
	if _, err := f.Write(make([]byte, most)); err != nil {
		t.Errorf("all bytes for one file: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// A folder without room for files refuses the start, and says which variable names it.
func TestNoFolder(t *testing.T) {
	t.Parallel()
	_, err := spool.New(filepath.Join(t.TempDir(), "none"), 1, prometheus.NewRegistry())
	if err == nil || !strings.Contains(err.Error(), "TMPDIR") {
		t.Errorf("got %v", err)
	}
}
