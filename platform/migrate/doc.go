// Package migrate brings a service's schema to the version that its binary needs, however many replicas start at once.
//
// The migrations are SQL files that goose applies. [Up] first looks whether anything is pending: with nothing to do a
// start needs no DDL right and waits for no lock. Else it polls, for a bounded time, for an advisory lock that lives in
// a transaction of its own, and applies what is pending while it holds it. A unique index on the history is the last
// guard: when the lock's connection is lost in the middle, the second application of a migration fails as a whole.
//
// goose's own locks are not used. It creates the history before it takes them; its session lock would stay, behind a
// transaction pooler, with a server connection that other clients use next; its table lock is a lease that can expire
// under a long migration.
//
// On MySQL and MariaDB the lock belongs to the session (GET_LOCK), the history lies in the URL's database, and DDL is
// not undone: each statement of a migration must be one that may run again (CREATE TABLE IF NOT EXISTS), and rows
// belong in a migration of their own, which is a transaction together with its line in the history.
//
// A replica of the release before may start on a schema that is newer than it, during a rolling upgrade or after a
// rollback. Each file therefore says whether such programs go on working once it is applied, in a line of its own:
//
//	-- rowlock: compatible
//	-- rowlock: breaking before 7
//
// The second one stops programs that do not know migration 7: 7 is the expansion that this file, of a later release,
// contracts, or the file's own number where no earlier program can go on. The history's column oldest_version, in its
// row of version 0, holds the highest such number. It is written in the migration's transaction, and before the
// migration where that is none. A program that knows the number runs; another one is refused with [ErrSchemaNewer].
//
// On Citus the tables are distributed after the migrations, by statements that are numbered in their order. The
// history's comment holds how many were run, written in each one's transaction. A program that takes the database for
// one server would report false outcomes there, and is refused with [ErrCluster].
//
// Up needs two connections at once.
package migrate
