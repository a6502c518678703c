// Package migrate brings a service's schema to the version that its binary
// needs, however many replicas start at once.
//
// The migrations are goose's SQL files. What this package adds is the lock and
// the looking: [Up] first looks whether anything is pending, so that a start
// with nothing to do needs no DDL right and waits for nobody; else it polls for
// an advisory lock that lives in a transaction of its own, which holds behind a
// transaction pooler too, where a session lock would be given to everybody. A
// unique index on the history is the last word: should the lock's connection be
// lost in the middle, the second application of a migration fails as a whole.
//
// On MySQL and MariaDB the lock is the session's (GET_LOCK), the history lies in
// the URL's database, and DDL is not undone: see mysqlDialect for what that asks of
// a migration.
//
// Behind a pooler Up needs two server connections at once.
package migrate
