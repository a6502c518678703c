// Package postgres keeps counts in PostgreSQL, table counts.count_values.
//
// Changes go through group commit (platform/coalesce): concurrent calls of Add share one statement, which locks its
// rows in the order of their ids and changes them. add.go has the whole path; sums.go the arithmetic of a group. No
// statement writes a value that another one has read.
package postgres
