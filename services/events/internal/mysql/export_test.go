package mysql

// Parts is the number of partitions of the pending events.
const Parts = parts

// ClaimPartSQL returns the statement that claims from a partition.
func ClaimPartSQL(part uint64) string { return claimPartSQL(part) }
