// Package countingtest is the suite that every counting.CountValueRepository
// must pass, with a repository in memory, which passes it and serves the port
// tests.
package countingtest
