// Package eventtest holds the suite that every store of events must pass, as an event.Repository and an event.Queue in
// one. Only tests import it.
package eventtest
