package attempt

import "time"

const (
	// MaxPage limits the entries of one page or one claim.
	MaxPage = 10_000
	// MaxBatch limits the items of a batch that is held in memory. A longer one is
	// staged in the database.
	MaxBatch = 10_000
	// MaxBatchBytes limits the bytes of a batch that is held in memory.
	MaxBatchBytes = 2 << 20
	// MinLease is the shortest lease of a claim.
	MinLease = time.Second
	// MaxLease is the longest lease of a claim.
	MaxLease = 12 * time.Hour
)

// Change is an operation on items.
type Change uint8

const (
	// Add puts the items into the list, with no attempts.
	Add Change = iota + 1
	// Increment adds one to the attempts of the items that are in the list.
	Increment
	// Delete removes the items that are in the list.
	Delete
)

// Changes returns every change.
func Changes() []Change { return []Change{Add, Increment, Delete} }

// String returns the change's name in spans and logs.
func (c Change) String() string { return [...]string{"none", "add", "increment", "delete"}[c] }

// Entry is an item with its failed attempts.
type Entry struct {
	Item     Item
	Attempts int64
}

// Lease is the result of a claim; Claim is empty when no item was free.
type Lease struct {
	Claim   Claim
	Until   time.Time // by the database's clock
	Entries Entries
}

// Buckets counts the items with 0, 1, 2, 3, 4, and 5 or more attempts.
type Buckets [6]int64

// Counts holds the number of a list's items by state.
type Counts struct {
	Items    int64
	Claimed  int64 // under a lease that has not ended
	Attempts Buckets
}
