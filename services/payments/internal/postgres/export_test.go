package postgres

// The statements whose plans are tested.
const (
	PageAfterSQL     = pageAfterSQL
	DeleteExpiredSQL = deleteExpiredSQL
	DeleteSettledSQL = deleteSettledSQL
	EarlierSQL       = earlierSQL
	LookSQL          = lookSQL
	OverdueSQL       = overdueSQL
	OpenSQL          = openSQL
)
