// Package sqldb gives a service access to PostgreSQL, or to MySQL and MariaDB: one
// pool, four ways to use it, and errors that say whether the change was made.
//
//   - [DB.GetContext] and [DB.SelectContext] read. They may be sent several times, and leave
//     half of the connections to changes.
//   - [DB.Repeatable] sends one autocommit statement that may be applied several times, and
//     waits for no reads.
//   - [DB.Once] sends one autocommit statement that must not be. It is sent again only when
//     the server itself has said that nothing of it was applied.
//   - [DB.InTx] runs a READ COMMITTED transaction and repeats it after a
//     deadlock, a serialization failure or a migration, but never once COMMIT was sent.
//
// # Outcomes
//
// A lost connection leaves three possibilities, not two: applied, not applied,
// unknown. Every error of the database comes back as an [*Error] whose
// [Outcome] is NotApplied only where that is certain: nothing was sent, the
// transaction had no COMMIT, or the server itself answered with an error.
// Everything else is Unknown. [Problem] turns both into the API's answers.
//
// # Failover
//
// Without a pooler, and unless the URL says any, a pool accepts sessions that take
// changes and no others. One that a server answers as read-only (25006, or a BEGIN on a
// standby) is closed, and the call is NotApplied. So a pool whose URL names several
// hosts, or one name that moves, follows the primary. A change that the server has
// committed without its synchronous standby, because the wait was cancelled, is Unknown;
// and a lost COMMIT is called applied only after the standby has confirmed a later one of
// the same server and timeline.
//
// # Why the driver is wrapped
//
// database/sql repeats a call when the driver answers driver.ErrBadConn, and
// lib/pq answers so after the server may already have committed (lib/pq#939,
// golang/go#11978). The pool's connections are therefore wrapped: they count
// the bytes that left the socket, and return ErrBadConn only when there were none.
// The wrapper also bounds every wait for an answer, because neither a context
// nor statement_timeout ends a read from a network that drops packets, and it
// detects a connection that the server closed while it was idle before anything
// is sent on it.
//
// # Where things are
//
// Single statements, reads among them, are in statement.go, InTx is in tx.go, and the
// loop of look-ups after a lost answer in resolve.go; the look-up itself is in
// groupcommit/outcome.go. hosts.go says which sessions are accepted, rights.go what their
// role must be allowed, unreplicated.go which changes a standby may lack. conn.go,
// conn_tx.go, rows.go and socket.go are the wrapper, which database/sql calls; errors.go
// classifies its errors. What differs between the servers is in postgres.go, mysql.go,
// answer_postgres.go and answer_mysql.go, behind the interface of engine.go.
package sqldb
