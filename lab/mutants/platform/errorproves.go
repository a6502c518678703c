// Mutant of platform/sqldb/cluster.go: an error of Citus' coordinator proves that nothing was applied.

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

// classify takes Citus' coordinator for a server that is alone: what it answers with an error was not applied, though a
// worker whose answer got lost may have committed.
func (db *DB) classify(err error, sent bool) *Error { return Classify(err, sent) }
