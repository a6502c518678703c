// Package paymenttest is the suite that every payment.Repository must pass, with
// doubles for the domain's ports: a repository in memory, which passes the suite, one
// that fails on purpose, and a processor that charges in memory.
package paymenttest
