// Package lifecycle turns the parts of a service into a process: it starts
// them in order, waits, and stops them in reverse under one deadline.
//
// It has two halves. [Run] takes the [Part]s that a composition root has put
// together (database, coalescer, HTTP servers, workers) and holds them up until
// the context ends or one of them fails. [Main] is the command line around it:
// serve, migrate, version and --help, one clear sentence and exit status 1 for
// an error, 2 for a command line that makes no sense.
//
// Signals are listened to in this package and nowhere else. The first SIGINT or
// SIGTERM ends the context that Main gives to the command, which starts the
// orderly end; from then on a second one has its default effect and kills the
// process, for whoever has waited long enough.
//
//	started in order:   database -> coalescer -> api -> admin
//	stopped in reverse: admin <- api <- coalescer <- database
//
// The order is the promise: a part may use those before it from its Start until
// the end of its Stop. So the server drains while the coalescer still commits,
// and the coalescer flushes while the pool is still open.
package lifecycle
