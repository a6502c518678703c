// Package migrate brings a service's schema to the version that its binary needs, however many replicas start at once.
//
// The migrations are SQL files that goose applies. [Up] first checks whether anything is pending: if not, a start needs
// no DDL right and waits for no lock. Else it polls, for a bounded time, for an advisory lock that lives in a separate
// transaction, and applies the pending migrations while it holds the lock. A unique index on the history is the last
// guard: if the lock's connection breaks meanwhile, the second application of a migration fails completely.
//
// Goose's locks are not used. Goose creates the history before it takes them. Behind a transaction pooler its session
// lock would stay with a server connection that other clients use next. Its table lock is a lease that can expire
// during a long migration.
//
// On MySQL and MariaDB the lock belongs to the session (GET_LOCK), the history is in the URL's database, and DDL cannot
// be rolled back: each statement of a migration must be safe to run again (CREATE TABLE IF NOT EXISTS). Changes of rows
// belong in a separate migration, which is one transaction with its line in the history.
//
// During a rolling upgrade or after a rollback, a replica of the previous release may start on a newer schema. So each
// file says, in a separate line, whether older programs still work after it:
//
//	-- rowlock: compatible
//	-- rowlock: breaking before 7
//
// The second line stops programs that do not know migration 7: the expansion that this file, from a later release,
// contracts, or the file's own number if no earlier program can work. The history's column oldest_version, in the row
// of version 0, holds the highest such number. It is written in the migration's transaction, or before the migration if
// that has none. A program that knows the number runs; any other is refused with [ErrSchemaNewer].
//
// On Citus, numbered statements distribute the tables after the migrations. The history's comment holds how many have
// run; each statement's transaction updates it. A program that takes the database for a single server would report
// false outcomes there, so it is refused with [ErrCluster].
//
// Up needs two connections at once.
package migrate
