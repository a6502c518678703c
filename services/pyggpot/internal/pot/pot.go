package pot

import "time"

// ID identifies a pot. The smallest is 1.
type ID int32

// Pot holds a pot and its coins.
type Pot struct {
	ID         ID
	Name       string
	MaxCoins   int32
	CreateTime time.Time
	Contents   Contents
}

// DefaultPageSize is the number of pots on a page when the request names none.
const DefaultPageSize = 25

// Page selects a part of the list of all pots, in the order of their ids.
type Page struct {
	// Number counts from 1.
	Number int32
	// Size is the number of pots on a page; 0 means DefaultPageSize.
	Size int32
}

// Limit returns the maximum number of pots on the page.
func (p Page) Limit() int64 {
	if p.Size == 0 {
		return DefaultPageSize
	}
	return int64(p.Size)
}

// MaxOffset limits the number of pots before a page: the store passes over each of them.
const MaxOffset = 1_000_000

// Offset returns the number of pots on the pages before. It never overflows.
func (p Page) Offset() int64 { return (int64(p.Number) - 1) * p.Limit() }
