package postgres

// The statements whose plans are tested.
const (
	PageAfterSQL     = pageAfterSQL
	DeleteExpiredSQL = deleteExpiredSQL
	EarlierSQL       = earlierSQL
)
