// Package bench measures a running service against bare PostgreSQL and reports the figures.
//
// One run of a scenario is worth little on a machine that does other things too, so every scenario runs several times, the scenarios
// take turns (a slow minute then hits all of them and not one), and the report gives medians. After each run the counters are summed:
// a figure counts only when every acknowledged increment is in the database exactly once.
package bench
