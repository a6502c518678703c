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
