// Package acceptance holds the tests of the services that need real processes on one
// database, and that neither a service's own suite nor `rowlock prove` makes: a crash
// at a named step, a holder that is stopped, a rolling upgrade from an earlier revision and
// the way back, a million lines, the tours of the READMEs.
// It has no other code.
package acceptance
