package pot

import "time"

// ID is a pot's number, from 1 on.
type ID int32

// Pot is a pot and what is in it.
type Pot struct {
	ID         ID
	Name       string
	MaxCoins   int32
	CreateTime time.Time
	Contents   Contents
}

const (
	// DefaultPageSize is how many pots a page has when nobody says.
	DefaultPageSize = 25
	// MaxPageSize is how many pots a page may have.
	MaxPageSize = 100
)

// Page is a part of the list of all pots, in the order of their ids.
type Page struct {
	// Number counts from 1.
	Number int32
	// Size is 1 to MaxPageSize; 0 stands for DefaultPageSize.
	Size int32
}

// Limit is how many pots the page has at most.
func (p Page) Limit() int64 {
	if p.Size == 0 {
		return DefaultPageSize
	}
	return int64(p.Size)
}

// Offset is how many pots stand on the pages before. It fits for any page.
func (p Page) Offset() int64 { return (int64(p.Number) - 1) * p.Limit() }
