// Package tools pins the programs that the Makefile runs (see go.mod) and tests the linter's own rules and the pages.
// It is no part of go.work, so that the tools' dependencies stay out of everyone else's.
package tools
