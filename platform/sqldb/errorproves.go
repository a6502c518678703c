package sqldb

// provesLess reports whether an error after a change was sent proves less than on one server; see classify.
func (db *DB) provesLess() bool { return db.settings.Cluster == ClusterCitus }
