package local

import (
	"cmp"
	"io"
	"maps"
	"slices"
	"sync"
	"time"
)

// Spec says what a [Set] runs.
type Spec struct {
	// Service names the replicas: counts-1, counts-2, ...
	Service string
	// Path is the binary, see [Binary].
	Path string
	// Args are its arguments; none means "serve".
	Args []string
	// NoAPI says that the processes serve no API, as workers: only their admin listener is awaited, and they are no
	// backends.
	NoAPI bool
	// Environ is the whole environment of the processes. HTTP_ADDR, ADMIN_ADDR, LOG_FORMAT and, unless it is debug,
	// LOG_LEVEL are overwritten: the addresses are read from the log.
	Environ map[string]string
	// Line is called with each line that a replica writes to its standard output or error, without the line break. The
	// bytes are valid during the call only. Calls for one replica come one after the other. Nil drops the lines.
	Line func(replica string, line []byte)
	// Notify is called with what happens to the replicas, in order for each of them. Nil is allowed.
	Notify func(Event)
	// StartTimeout bounds the time from the start of a process, migrations included, until it is ready; 0 means 60 s.
	StartTimeout time.Duration
	// StopTimeout is the time from SIGTERM to SIGKILL; 0 means 25 s, more than the services' SHUTDOWN_TIMEOUT.
	StopTimeout time.Duration
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
	if len(s.Args) == 0 {
		s.Args = []string{"serve"}
	}
	s.StartTimeout, s.StopTimeout = cmp.Or(s.StartTimeout, time.Minute), cmp.Or(s.StopTimeout, 25*time.Second)
	if s.Line == nil {
		s.Line = func(string, []byte) {}
	}
	if s.Notify == nil {
		s.Notify = func(Event) {}
	}
	return s
}

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

// EventKind says what happened to a replica.
type EventKind uint8

// The kinds of events.
const (
	// Ready: the replica takes requests for the first time since its start.
	Ready EventKind = iota + 1
	// Ended: its process ended though the set was not stopped. It is started again after Event.Pause.
	Ended
)

// Event reports what happened to a replica.
type Event struct {
	Kind    EventKind
	Replica string
	// PID is the process that became ready or ended.
	PID int
	// Starts counts the starts of the replica so far, this one included.
	Starts int
	// After is the time since the start of the process.
	After time.Duration
	// Err says how it ended (Ended only): exit status or signal, and the last thing it said.
	Err error
	// Pause is the time until the replica is started again (Ended only).
	Pause time.Duration
}

// Backend is a replica that takes requests.
type Backend struct {
	// Name is that of the replica, such as "counts-2".
	Name string
	// Addr is the address of its API, such as "127.0.0.1:43121".
	Addr string
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
