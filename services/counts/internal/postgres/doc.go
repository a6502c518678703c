// Package postgres stores counts in PostgreSQL, table counts.count_values.
//
// Changes go through group commit (platform/coalesce): concurrent calls of Add share one statement, which locks its
// rows in the order of their ids and changes them. add.go has the whole path; sums.go the arithmetic of a group. No
// statement writes a value that another one has read. values.go has what is not grouped.
//
// The group's statement and the way it is sent stand alone in group.go and once.go, because mutants replace them:
// group_bug.go and once_bug.go, which only the build tags bug_* build.
package postgres
