// Package eventtest holds the suite that every store of events must pass, as both an event.Repository and an
// event.Queue. Only tests import it.
package eventtest
