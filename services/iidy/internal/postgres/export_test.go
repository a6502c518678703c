package postgres

// The statements whose plans the tests look at.
const (
	PageSQL     = pageSQL
	ClaimSQL    = claimSQL
	HeldManySQL = heldManySQL
	ExtendSQL   = extendSQL
)

// LongHead is for tests that need one.
const LongHead = longHead
