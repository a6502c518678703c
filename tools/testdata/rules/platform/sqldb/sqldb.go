package sqldb

type DB struct{}
