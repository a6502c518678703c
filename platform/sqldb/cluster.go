package sqldb

// Cluster names what distributes the database's tables over servers.
type Cluster string

// The known clusters.
const (
	// ClusterNone is one primary.
	ClusterNone Cluster = "none"
	// ClusterCitus is PostgreSQL with the extension Citus: the URL leads to its coordinator,
	// which sends each statement on to the workers that have the rows.
	ClusterCitus Cluster = "citus"
)

// Cluster returns what distributes the database's tables.
func (db *DB) Cluster() Cluster { return db.settings.Cluster }

// classify is Classify for an error of this pool.
//
// Citus' coordinator answers with an error when it has lost the answer of a worker, which
// may have committed: of a statement as 08006, of the second phase of COMMIT as XX000, and
// a cancelled wait for it as 57014 or 40P01. Once something that commits was sent, such an
// answer proves nothing there; a refusal of the statement itself does.
func (db *DB) classify(err error, sent bool) *Error {
	e := Classify(err, sent)
	if e == nil || !sent || db.settings.Cluster != ClusterCitus {
		return e
	}
	if e.SQLState != "" && !aborted(err) && !refusesAlone(e.SQLState) {
		e.Outcome = Unknown
	}
	return e
}

// refusesAlone reports a SQLSTATE that a server answers with when it has refused a statement, and
// that Citus has for nothing else.
func refusesAlone(state string) bool {
	switch class(state) {
	case "0A", "21", "22", "23", "42", "44", "54":
		return true
	}
	return state == stateLockNotAvailable || state == stateReadOnlyTransaction
}
