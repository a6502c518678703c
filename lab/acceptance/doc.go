// Package acceptance holds the tests of the services that need real replicas,
// several processes on one PostgreSQL, and that neither a service's own suite nor
// `rowlock prove` makes: a crash at a named step, a holder that is stopped, a
// million lines, sums over replicas without a deadlock, the tours of the READMEs.
// It has no code of its own.
package acceptance
