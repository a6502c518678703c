// Package lifecycle turns the parts of a service into a process: it starts them in order, waits, and stops them in
// reverse under one deadline.
//
// [Run] takes the [Part]s that a composition root has made (database, group commit, listeners, workers) and runs them
// until its context ends or one of them fails. [Main] is the command line around it: serve, migrate, version and
// --help, with exit status 1 and one sentence for an error, and 2 for a bad command line.
//
// Signals are handled in this package alone. The first SIGINT or SIGTERM ends the context that Main gives to the
// command, which starts the orderly end; a second one has its default effect and kills the process.
//
//	started in order:   admin -> database -> group commit -> api
//	stopped in reverse: api -> group commit -> database -> admin
//
// A part may use those before it from its Start until the end of its Stop. So the probes answer while the database is
// away, the API drains while groups still commit, and the last groups commit while the pool is open.
package lifecycle
