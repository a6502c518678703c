// Package prove injects faults into running services and checks that what they promise
// holds.
//
// Every service runs as N processes behind a balancer, on a PostgreSQL server behind a
// proxy that can lose replies. Clients send what real callers send and record every
// operation: when it was called, when it returned, and its outcome. A run is a row of
// fault windows, one kind of fault each:
//
//	load starts ── events of the schedule ── faults end ── services answer again ── load ends ── check
//
// A fault window has two kinds of checks. Those of the services: every key's history is
// linearizable (package history), sums, rows and charges in the database agree with the
// answers, and an answer comes in time. Those of the fault: that it had an effect; a
// window that misses one is repeated once with a double dose.
//
// The seed gives the schedule: which fault, when, in which replica. It does not give
// the order in which the operating system runs the processes.
package prove
