// Package paymenttest tests that a payment.Repository keeps its contract, its
// transactions and its behavior under contention. Exercise runs the suite.
package paymenttest
