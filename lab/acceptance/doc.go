// Package acceptance holds the tests of the services that need real processes on one
// database, and that neither a service's own suite nor `rowlock prove` makes: a crash
// at a named step, AUTH switched on, a client in another language, a rolling upgrade
// to the next release and the way back, a request of 50 MiB, the tours of the READMEs.
// It has no other code.
package acceptance
