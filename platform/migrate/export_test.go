package migrate

// TryLockMySQL returns the statement that takes the lock of src on MySQL.
func TryLockMySQL(src Source) string { return mysqlDialect(src).tryLock }
