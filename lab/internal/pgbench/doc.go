// Package pgbench measures what PostgreSQL does without any service in front of it, by its own benchmark program: one
// prepared single-row UPDATE per transaction. That is the baseline which the speed of a service is held against.
package pgbench
