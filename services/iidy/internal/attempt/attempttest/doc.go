// Package attempttest holds the suite that every attempt.Repository must pass, and a
// repository whose methods fail.
package attempttest
