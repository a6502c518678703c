package local

import (
	"io"
	"maps"
	"slices"
	"sync"
	"time"
)

// Spec says what to run.
type Spec struct {
	// Service names the replicas: counts-1, counts-2, ...
	Service string
	// Path is the binary, see [Binary].
	Path string
	// Args are its arguments; none means "serve".
	Args []string
	// NoAPI says that the processes serve no API, as workers do: their probes
	// alone are waited for, and they are no backends.
	NoAPI bool
	// Environ is the whole environment of the processes. HTTP_ADDR, ADMIN_ADDR,
	// LOG_FORMAT and, unless it is debug, LOG_LEVEL are set by the package:
	// without them the addresses would not be known.
	Environ map[string]string
	// Line is given each line that a replica writes to its standard output or
	// error, without the line break. The bytes are valid during the call only.
	// Calls for one replica come one after the other, those for several at
	// once; while it runs, its replica cannot write. Nil drops the lines.
	Line func(replica string, line []byte)
	// Notify is told what happens to the replicas, in the order of each
	// replica, several at once. Nil is allowed.
	Notify func(Event)
	// StartTimeout bounds the time from the start of a process until it is
	// ready; 60 s when zero. It includes the migrations.
	StartTimeout time.Duration
	// StopTimeout bounds the time from SIGTERM until the end of the process,
	// then it is killed; 25 s when zero, which is more than the services' own
	// SHUTDOWN_TIMEOUT.
	StopTimeout time.Duration
}

// Prefixed returns a function for [Spec.Line] that copies whole lines to w, each
// after the name of its replica.
func Prefixed(w io.Writer) func(replica string, line []byte) {
	var mu sync.Mutex
	var buf []byte
	return func(replica string, line []byte) {
		mu.Lock()
		defer mu.Unlock()
		buf = append(buf[:0], replica...)
		buf = append(buf, " | "...)
		buf = append(buf, line...)
		buf = append(buf, '\n')
		// Lines are for people; when nobody can read them the replicas go on.
		_, _ = w.Write(buf)
	}
}

func (s Spec) withDefaults() Spec {
	if len(s.Args) == 0 {
		s.Args = []string{"serve"}
	}
	if s.StartTimeout == 0 {
		s.StartTimeout = time.Minute
	}
	if s.StopTimeout == 0 {
		s.StopTimeout = 25 * time.Second
	}
	if s.Line == nil {
		s.Line = func(string, []byte) {}
	}
	if s.Notify == nil {
		s.Notify = func(Event) {}
	}
	return s
}

// environ is the environment of a process as exec wants it.
func (s Spec) environ() []string {
	env := maps.Clone(s.Environ)
	if env == nil {
		env = make(map[string]string)
	}
	env["HTTP_ADDR"] = "127.0.0.1:0"
	env["ADMIN_ADDR"] = "127.0.0.1:0"
	env["LOG_FORMAT"] = "json"
	if env["LOG_LEVEL"] != "debug" {
		env["LOG_LEVEL"] = "info"
	}
	list := make([]string, 0, len(env))
	for _, key := range slices.Sorted(maps.Keys(env)) {
		list = append(list, key+"="+env[key])
	}
	return list
}

// EventKind is what happened to a replica.
type EventKind uint8

// The kinds of events.
const (
	// Ready: the replica takes requests for the first time since its start.
	Ready EventKind = iota + 1
	// Ended: its process is gone though nobody stopped the set; it is started
	// again after Event.Pause.
	Ended
)

// Event tells what happened to a replica.
type Event struct {
	Kind    EventKind
	Replica string
	// PID is the process that became ready or ended.
	PID int
	// Starts counts the starts of the replica so far, this one included.
	Starts int
	// After is the time since the start of the process.
	After time.Duration
	// Err says how it ended (Ended only): its exit status or signal and its last words.
	Err error
	// Pause is how long the set waits before it starts the replica again (Ended only).
	Pause time.Duration
}

// Backend is a replica that takes requests.
type Backend struct {
	// Name is that of the replica, such as "counts-2".
	Name string
	// Addr is the address of its API, such as "127.0.0.1:43121".
	Addr string
}

// Status is what is known of a replica at one moment.
type Status struct {
	Name string
	// PID is that of the running process; 0 while there is none.
	PID int
	// API and Admin are the addresses that it has bound; empty until they are known.
	API, Admin string
	// Ready tells whether it takes requests.
	Ready bool
	// Starts counts how often it was started.
	Starts int
	// Flips counts how often it ran, had been ready, and was not any more; a replica
	// that is told to end does not count.
	Flips int
}
