// Package spool keeps incoming batches in temporary files until they are complete. The
// files have no names, so that the operating system removes them however the process
// ends.
package spool

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
)

// Spool makes files in a folder, with a limit on their bytes together.
type Spool struct {
	dir  string
	most int64
	used atomic.Int64
}

var _ attempt.Spool = (*Spool)(nil)

// New returns a spool of at most that many bytes in dir, and registers its metric. It
// fails when it cannot make a file there.
func New(dir string, most int64, reg prometheus.Registerer) (*Spool, error) {
	s := &Spool{dir: dir, most: most}
	probe, err := s.Create()
	if err != nil {
		return nil, fmt.Errorf("batches need a folder for temporary files (TMPDIR): %w", err)
	}
	_ = probe.Close()

	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "iidy_spool_bytes", Help: "Bytes of batches in temporary files, at most SPOOL_MAX.",
	}, func() float64 { return float64(s.used.Load()) }))
	return s, nil
}

// Free implements attempt.Spool.
func (s *Spool) Free() int64 { return s.most - s.used.Load() }

// Create implements attempt.Spool.
func (s *Spool) Create() (attempt.File, error) {
	f, err := os.CreateTemp(s.dir, "iidy-")
	if err != nil {
		return nil, full(err)
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &file{File: f, spool: s}, nil
}

// file is a file of a spool.
type file struct {
	*os.File

	spool *Spool
	taken int64 // of the spool's bytes
}

// Write implements attempt.File.
func (f *file) Write(p []byte) (int, error) {
	size := int64(len(p))
	if f.spool.used.Add(size) > f.spool.most {
		f.spool.used.Add(-size)
		return 0, attempt.ErrSpoolFull
	}
	f.taken += size
	n, err := f.File.Write(p)
	return n, full(err)
}

// full adds attempt.ErrSpoolFull to err when the disk is full.
func full(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return errors.Join(attempt.ErrSpoolFull, err)
	}
	return err
}

// Close implements attempt.File.
func (f *file) Close() error {
	f.spool.used.Add(-f.taken)
	f.taken = 0
	return f.File.Close()
}
