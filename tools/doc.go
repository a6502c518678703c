// Package tools pins the programs that the Makefile runs (see go.mod) and proves the linter's house rules.
// It is no part of go.work, so that the tools' dependencies stay out of everyone else's.
package tools
