// Package tools pins the programs that the Makefile runs (see go.mod), and tests our linter rules and the pages. It is
// not part of go.work, so that the tools' dependencies affect no other module.
package tools
