package migrate

// TryLockMySQL is the statement that takes the lock of src on MySQL.
func TryLockMySQL(src Source) string { return mysqlDialect().tryLock(src) }
