// Package paymenttest holds the suite that every payment.Repository must pass: its
// contract, its transactions and its behavior under contention.
package paymenttest
