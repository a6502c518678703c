// Package countingtest is the suite that every counting.CountValueRepository must pass. Beside it are the repositories
// of the port tests: Memory, which passes the suite, and Failing.
package countingtest
