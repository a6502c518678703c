// Package countingtest is the suite that every counting.CountValueRepository
// must pass, with two repositories of its own: one in memory, which passes it
// and serves the port tests, and one that fails on purpose.
package countingtest
