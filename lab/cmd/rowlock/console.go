package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
)

// console writes what people read. It is used from many goroutines at once.
type console struct {
	mu  sync.Mutex
	out io.Writer
}

func (c *console) say(format string, args ...any) { //nolint:goprintffuncname // it says a line, it does not print a format
	c.mu.Lock()
	defer c.mu.Unlock()
	say(c.out, format, args...)
}

// Write lets others report their progress, in whole lines.
func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.Write(p) //nolint:wrapcheck // an io.Writer returns the error of the one below
}

// printTable says what runs where, and what to try.
func (s *system) printTable(context.Context) error {
	var b bytes.Buffer
	tw := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	say(tw, "\nSERVICE\tADDRESS\tTRY IT IN THE BROWSER\tREPLICAS")
	for _, r := range s.running {
		for i, replica := range r.set.Load().Replicas() {
			st := replica.Status()
			cells := "\t\t"
			if i == 0 {
				cells = r.service.Name + "\t" + r.url() + "\t" + r.url() + "/docs"
			}
			say(tw, "%s\t%s: process %d, metrics at http://%s/metrics", cells, st.Name, st.PID, st.Admin)
		}
	}
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	say(&b, "\nPaste into another terminal:")
	for _, r := range s.running {
		say(&b, "  %s", strings.ReplaceAll(r.service.Try, "URL", r.url()))
	}
	b.WriteByte('\n')
	if s.server != nil {
		say(&b, `The database, with psql:  psql "$(cat %s)"`, s.urlFile())
	} else {
		say(&b, "The database is the one of DATABASE_URL.")
	}
	say(&b, "All logs: %s (warnings and errors appear here too). Ctrl-C stops everything.", s.logs.dir)
	_, err := s.console.Write(b.Bytes())
	return err
}

// line takes a log line of a replica: into its file, and onto the console what
// a person should see.
func (s *system) line(replica string, line []byte) {
	// A full disk must not stop a replica; PostgreSQL will say it louder.
	_ = s.logs.write(replica, line)
	if text, ok := readable(line, s.verbose); ok {
		s.console.say("%s | %s", replica, text)
	}
}

// readable makes a log line readable: time, service and version are left out,
// as everybody can see when and where. Unless all is wanted, ok says whether it
// is a warning, an error, or no log line at all (a panic, for one).
func readable(line []byte, all bool) (text string, ok bool) {
	var members map[string]json.RawMessage
	if json.Unmarshal(line, &members) != nil {
		return string(line), true
	}
	level := unquoted(members["level"])
	if !all && level != "WARN" && level != "ERROR" {
		return "", false
	}
	var b strings.Builder
	b.WriteString(level + " " + unquoted(members["msg"]))
	for _, name := range slices.Sorted(maps.Keys(members)) {
		switch name {
		case "time", "level", "msg", "service", "version":
		default:
			b.WriteString(" " + name + "=" + string(members[name]))
		}
	}
	return b.String(), true
}

func unquoted(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return string(raw)
	}
	return s
}

// maxLog is the size in bytes at which a log is put aside as <name>.log.1, over the one before.
const maxLog = 16 << 20

// logs are the replicas' log files, new with each `up`.
type logs struct {
	dir   string
	mu    sync.Mutex
	files map[string]*logFile
	buf   []byte // a line with its break, so that it is written at once
}

type logFile struct {
	file *os.File
	size int
}

func (l *logs) write(replica string, line []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.files[replica]
	if f != nil && f.size > maxLog {
		path := f.file.Name()
		if err := errors.Join(f.file.Close(), os.Rename(path, path+".1")); err != nil {
			return err
		}
		f = nil
	}
	if f == nil {
		file, err := os.Create(filepath.Join(l.dir, replica+".log"))
		if err != nil {
			return err //nolint:wrapcheck // names the file
		}
		f = &logFile{file: file}
		if l.files == nil {
			l.files = make(map[string]*logFile)
		}
		l.files[replica] = f
	}
	l.buf = append(append(l.buf[:0], line...), '\n')
	n, err := f.file.Write(l.buf)
	f.size += n
	return err //nolint:wrapcheck // names the file
}

func (l *logs) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	errs := make([]error, 0, len(l.files))
	for _, f := range l.files {
		errs = append(errs, f.file.Close())
	}
	l.files = nil
	return errors.Join(errs...)
}
