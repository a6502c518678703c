package mysql

// Parts is how many there are; ClaimPartSQL names one.
const Parts = parts

// ClaimPartSQL is the statement that claims from a part.
func ClaimPartSQL(part uint64) string { return claimPartSQL(part) }
