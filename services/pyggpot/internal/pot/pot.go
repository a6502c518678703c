package pot

import "time"

// ID identifies a pot: 1 and up.
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
	// Size is how many pots a page has; 0 stands for DefaultPageSize.
	Size int32
}

// Limit returns how many pots the page has at most.
func (p Page) Limit() int64 {
	if p.Size == 0 {
		return DefaultPageSize
	}
	return int64(p.Size)
}

// MaxOffset is how many pots a page may begin after: the store passes over each of them.
const MaxOffset = 1_000_000

// Offset returns how many pots are on the pages before. It overflows for no page.
func (p Page) Offset() int64 { return (int64(p.Number) - 1) * p.Limit() }
