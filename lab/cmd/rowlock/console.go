package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"

	"gopkg.in/natefinch/lumberjack.v2"
)

// console writes lines from many goroutines.
type console struct {
	mu  sync.Mutex
	out io.Writer
}

func (c *console) say(format string, args ...any) { //nolint:goprintffuncname // it writes a line
	say(c, format, args...)
}

// Write writes whole lines.
func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.Write(p) //nolint:wrapcheck // an io.Writer returns the error of the one below
}

// printTable prints the addresses and processes of all services, and commands to try.
func (s *system) printTable(context.Context) error {
	var b bytes.Buffer
	tw := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	say(tw, "\nSERVICE\tADDRESS\tTRY IT IN THE BROWSER\tREPLICAS")
	for _, r := range s.running {
		cells := r.service.Name + "\t" + r.balancer.URL() + "\t" + r.balancer.URL() + "/docs"
		for _, replica := range r.replicas.Replicas() {
			st := replica.Status()
			say(tw, "%s\t%s: process %d, metrics at http://%s/metrics", cells, st.Name, st.PID, st.Admin)
			cells = "\t\t"
		}
	}

	if err := tw.Flush(); err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	say(&b, "\nPaste into another terminal:")
	for _, r := range s.running {
		say(&b, "  %s", strings.ReplaceAll(r.service.Try, "URL", r.balancer.URL()))
	}

	if s.server != nil {
		say(&b, "\n"+`The database, with psql:  psql "$(cat %s)"`, s.urlFile())
	} else {
		say(&b, "\nThe database is the one of DATABASE_URL.")
	}

	say(&b, "All logs: %s (warnings and errors appear here too). Ctrl-C stops everything.", s.logs)
	_, err := s.console.Write(b.Bytes())
	return err
}

// maxLog is the size in megabytes at which a log file is rotated; one older file is kept.
const maxLog = 16

// logLines returns a function for local.Spec.Line that writes each replica's lines to a log file in the folder, new
// with each run, and warnings and errors to the console.
func logLines(folder string, out *console) func(replica string, line []byte) {
	var mu sync.Mutex
	files := map[string]io.Writer{}
	return func(replica string, line []byte) {
		mu.Lock()
		file := files[replica]
		if file == nil {
			path := filepath.Join(folder, replica+".log")
			_ = os.Remove(path) // there is none, or it cannot be written either
			file = &lumberjack.Logger{Filename: path, MaxSize: maxLog, MaxBackups: 1}
			files[replica] = file
		}
		mu.Unlock()
		_, _ = file.Write(append(slices.Clone(line), '\n')) // a full disk does not stop a replica
		if text, ok := readable(line); ok {
			out.say("%s | %s", replica, text)
		}
	}
}

// readable returns a JSON log line as text, without time, service and version. ok reports whether it is a warning, an
// error, or no log line at all, such as a panic.
func readable(line []byte) (text string, ok bool) {
	var members map[string]any
	if json.Unmarshal(line, &members) != nil {
		return string(line), true
	}
	level := members["level"]
	text = fmt.Sprint(level, " ", members["msg"])
	for _, name := range []string{"time", "level", "msg", "service", "version"} {
		delete(members, name)
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		text += fmt.Sprintf(" %s=%v", name, members[name])
	}
	return text, level == "WARN" || level == "ERROR"
}
