// Package postgres keeps counts in PostgreSQL, table counts.count_values.
//
// Changes go through group commit (platform/coalesce): concurrent Add calls
// share one statement, which locks its rows in the order of their ids and
// changes them in the same breath. Nothing reads a value in order to write it.
package postgres
