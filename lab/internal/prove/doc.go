// Package prove breaks a running system in every way we know and shows that
// what was promised held.
//
// Every service runs as N processes behind a balancer, on a private PostgreSQL
// server behind a proxy that can lose replies. Clients send what real callers
// send and record every operation: when it was called, when it returned, and how
// it ended. The run is a row of windows, one kind of fault each:
//
//	load begins ── events of the schedule ── faults end ── system answers again ── load ends ── check
//
// What a client knows of an operation is one of four things. OK: it was done,
// with that result. Refused: it was not, and never will be (a conflict, a missing
// thing). NotApplied: surely not done, safe to repeat. Unknown: nobody can say.
// The checks take each at its word: an OK that is not in the database, a
// NotApplied that is, and an answer that no order of the operations explains are
// all violations.
//
// Every key's history is held against a sequential model by porcupine
// (https://github.com/anishathalye/porcupine; Herlihy and Wing, "Linearizability",
// 1990). A verdict that was not reached in time is a failure. So is a window in
// which the fault had no effect: each has "sometimes" checks, and one that misses
// them runs again once with a double dose.
//
// The seed gives the schedule: which fault, when, to which replica. It does not
// give the order in which the operating system runs the processes.
package prove
