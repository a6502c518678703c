package main

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// progress shows how far a command is, in a line of the terminal below what the command prints.
type progress struct {
	terminal io.Writer
	end      chan struct{}
	ended    sync.WaitGroup

	mu      sync.Mutex
	text    func() string
	outputs []*above
}

// withProgress returns p with outputs that keep clear of the line, and the line. Without a terminal it is not shown.
func (p process) withProgress() (process, *progress) {
	l := &progress{terminal: p.terminal, end: make(chan struct{}), text: func() string { return "preparing" }}
	if l.terminal == nil {
		l.terminal = io.Discard
	}
	out, err := &above{progress: l, out: p.stdout}, &above{progress: l, out: p.stderr}
	p.stdout, p.stderr, l.outputs = out, err, []*above{out, err}
	l.ended.Go(func() {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				l.mu.Lock()
				l.draw()
				l.mu.Unlock()
			case <-l.end:
				return
			}
		}
	})
	return p, l
}

// show sets what is shown from now on: the text as it is each second.
func (l *progress) show(text func() string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = text
	l.draw()
}

// eraseLine goes to the start of a terminal's line and erases it.
const eraseLine = "\r\x1b[K"

// draw writes the line, which the terminal cuts at its width. The caller has the lock.
func (l *progress) draw() {
	_, _ = fmt.Fprintf(l.terminal, "%s\x1b[?7l%s  %s%s\x1b[?7h", eraseLine, l.text(),
		l.outputs[0].unfinished, l.outputs[1].unfinished)
}

// stop removes the line, and prints what is unfinished.
func (l *progress) stop() {
	close(l.end)
	l.ended.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = io.WriteString(l.terminal, eraseLine)
	for _, a := range l.outputs {
		_, _ = a.out.Write(a.unfinished)
	}
}

// above is an output that prints whole lines above the progress.
type above struct {
	*progress

	out        io.Writer
	unfinished []byte // the line that the command prints at the moment
}

// Write prints the lines that text ends.
func (a *above) Write(text []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unfinished = append(a.unfinished, text...)
	end := bytes.LastIndexByte(a.unfinished, '\n') + 1
	_, _ = io.WriteString(a.terminal, eraseLine)
	_, err := a.out.Write(a.unfinished[:end])
	a.unfinished = slices.Clone(a.unfinished[end:])
	a.draw()
	return len(text), err
}

// since returns the time since then, in whole seconds.
func since(then time.Time) time.Duration { return time.Since(then).Round(time.Second) }
