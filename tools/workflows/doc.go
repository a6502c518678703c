// Package workflows tests GitHub's workflows, and pins actionlint. It is a module of its own, because the linter and
// the generators beside it need a later release candidate of a YAML library than actionlint compiles with.
package workflows
