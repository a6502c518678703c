// Package countingtest holds the suite that every counting.CountValueRepository must pass, and the repositories for the
// tests of the ports: Memory, which passes the suite.
package countingtest
