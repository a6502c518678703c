// Package mysql stores events in MySQL or MariaDB, tables status and events of the database that the URL names, without
// a key, an index or a constraint on either.
//
// Every transaction is READ COMMITTED: at REPEATABLE READ a scan without an index locks each row that it passes, and
// the workers deadlock to a standstill. Even so a locking SELECT or a DELETE by id would wait for every claimed row on
// its way. Only an UPDATE reads past rows that other transactions have locked and that do not match (InnoDB's
// semi-consistent read), so the finish is one.
//
// With a backlog each claim reads another of the partitions of the pending events, so that workers do not wait for each
// other.
package mysql
