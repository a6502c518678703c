// A module of its own, so that `./...` in lab passes over the mutants: each is a file of another module's package, and
// compiles only in the place of the file that it replaces (go build -overlay, see lab/cmd/rowlock/mutationtest.go).
module github.com/rowlock/rowlock/lab/mutants

go 1.26.0
