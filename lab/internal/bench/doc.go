// Package bench measures a service against bare PostgreSQL and reports the figures.
//
// One run of a scenario is worth little on a machine that does other things too, so every scenario runs several times,
// the scenarios take turns (a slow minute then hits all of them and not one), and the report gives medians. After each
// run that changes rows the database is read: a figure counts only when every acknowledged change is there exactly
// once.
//
// A service has a table of scenarios and a table of bars (counts.go, payments.go, ...). One runner drives them all, as
// a closed loop, as an open loop, or with every request once.
package bench
