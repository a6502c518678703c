// Package mysql stores events in MySQL or MariaDB: tables status and events of the database that the URL names, without
// keys, indexes or constraints.
//
// Every transaction is READ COMMITTED: at REPEATABLE READ a scan without an index locks each row that it passes, and
// the workers deadlock to a standstill. Even then a locking SELECT or a DELETE by id would wait for every claimed row
// that it scans. Only an UPDATE skips rows that other transactions have locked and that do not match (InnoDB's
// semi-consistent read), so a worker finishes by UPDATE.
//
// While there is a backlog, each claim reads another partition of the pending events, so that workers do not wait for
// each other.
package mysql
