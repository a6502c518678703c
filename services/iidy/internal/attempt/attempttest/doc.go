// Package attempttest is the suite that every attempt.Repository must pass, with
// two repositories of its own: one in memory, which passes it and serves the port
// tests, and one that fails on purpose.
package attempttest
