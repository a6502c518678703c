package local

import (
	"cmp"
	"io"
	"maps"
	"slices"
	"sync"
)

// Spec says what a [Set] runs.
type Spec struct {
	// Service names the replicas: counts-1, counts-2, ...
	Service string
	// Path is the binary, see [Binary].
	Path string
	// Command is its argument; empty means "serve", the only one with an API.
	Command string
	// Environ is the whole environment of the processes. HTTP_ADDR, ADMIN_ADDR, LOG_FORMAT and, unless it is debug,
	// LOG_LEVEL are overwritten: the addresses are read from the log.
	Environ map[string]string
	// Line is called with each line that a replica writes to its standard output or error, without the line break. The
	// bytes are valid during the call only. Calls for one replica come one after the other. Nil drops the lines.
	Line func(replica string, line []byte)
	// Say is called with a sentence when a replica has ended by itself and when it is back. Nil drops them.
	Say func(sentence string)
}

// Prefixed returns a function for [Spec.Line] that copies lines to w, each after the name of its replica.
func Prefixed(w io.Writer) func(replica string, line []byte) {
	var mu sync.Mutex
	return func(replica string, line []byte) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = w.Write(
			slices.Concat([]byte(replica), []byte(" | "), line, []byte{'\n'})) // the replicas go on without a reader
	}
}

func (s Spec) withDefaults() Spec {
	s.Command = cmp.Or(s.Command, serve)
	if s.Line == nil {
		s.Line = func(string, []byte) {}
	}
	if s.Say == nil {
		s.Say = func(string) {}
	}
	return s
}

// serve is the command whose processes serve an API.
const serve = "serve"

// environ returns the environment of a process as "KEY=value".
func (s Spec) environ() []string {
	env := map[string]string{}
	maps.Copy(env, s.Environ)
	env["HTTP_ADDR"], env["ADMIN_ADDR"], env["LOG_FORMAT"] = "127.0.0.1:0", "127.0.0.1:0", "json"
	if env["LOG_LEVEL"] != "debug" {
		env["LOG_LEVEL"] = "info"
	}
	return Variables(env)
}

// Variables returns an environment as os/exec takes it, in the order of its names.
func Variables(environ map[string]string) []string {
	list := make([]string, 0, len(environ))
	for _, name := range slices.Sorted(maps.Keys(environ)) {
		list = append(list, name+"="+environ[name])
	}
	return list
}

// Status describes a replica at one moment.
type Status struct {
	Name string
	// PID is that of the running process; 0 while there is none.
	PID int
	// API and Admin are the addresses that it listens on; empty until they are known.
	API, Admin string
	// Ready reports whether it takes requests.
	Ready bool
	// Starts counts how often it was started.
	Starts int
	// Flips counts how often it became not ready while its process ran. A replica that is terminated does not count.
	Flips int
}
