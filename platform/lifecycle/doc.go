// Package lifecycle runs the parts of a service as a process: it starts them in order, waits, and stops them in reverse
// order under one deadline.
//
// [Run] takes the [Part]s that a composition root has built (database, group commit, listeners, workers) and runs them
// until its context ends or one of them fails. [Main] is the command line around it: serve, migrate, version and
// --help. It exits with status 1 and one sentence for an error, and with 2 for a bad command line.
//
// Only this package handles signals. The first SIGINT or SIGTERM ends the context that Main gives to the command, which
// starts the orderly stop. A second one has its default effect and kills the process.
//
//	started in order:   admin -> database -> group commit -> api
//	stopped in reverse: api -> group commit -> database -> admin
//
// A part may use the parts before it from its Start until the end of its Stop. So probes are answered while the
// database is unavailable, the API drains while groups still commit, and the last groups commit while the pool is open.
package lifecycle
