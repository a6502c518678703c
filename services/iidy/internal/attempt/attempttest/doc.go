// Package attempttest holds the suite that every attempt.Repository must pass.
package attempttest
