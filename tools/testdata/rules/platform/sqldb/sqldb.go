package sqldb
