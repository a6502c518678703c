// Package eventtest is the suite that every store of events must pass, as an
// event.Repository and an event.Queue in one, with two stores of its own: one in
// memory, which passes it and serves the port tests, and one that fails on purpose.
package eventtest
