// Package eventtest holds the suite that every store of events must pass, as an event.Repository and an event.Queue in
// one, and a store whose methods fail. Only tests import it.
package eventtest
