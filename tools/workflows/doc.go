// Package workflows tests GitHub's workflows, and pins actionlint. It is a separate module, because the linter and the
// generators need a later release candidate of a YAML library than actionlint compiles with.
package workflows
