package counting

import (
	"errors"
	"fmt"
	"time"
)

// Operation says what a Request does to its counts.
type Operation uint8

// The operations.
const (
	// Add adds each change to its count.
	Add Operation = iota
	// Create stores a new count; its value is the Delta of the only change.
	Create
	// Set sets the count to the Delta of the only change.
	Set
	// Delete deletes the count of the only change.
	Delete
)

// Request asks for one atomic change.
type Request struct {
	Operation Operation
	// Key makes it repeatable, unless its Value is empty.
	Key Key
	// Changes has 1 to MaxChanges elements for Add and one for the other operations.
	Changes []Change
	// CreateMissing makes Add create missing counts, with 0, before the changes.
	CreateMissing bool
}

// Plain reports whether r only adds to one count: it has no key and creates nothing.
func (r Request) Plain() bool { return r.Operation == Add && r.Simple() }

// Simple reports whether r changes one count and has no key, so that one shard can serve it.
func (r Request) Simple() bool { return len(r.Changes) == 1 && r.Key.Value == "" && !r.CreateMissing }

// Refusal says why a request changed nothing; it is empty for a request that was applied.
type Refusal string

// The refusals, each of which stands for an error of this package.
const (
	refusedMissing  Refusal = "not_found"
	refusedExists   Refusal = "exists"
	refusedOverflow Refusal = "overflow"
	refusedKey      Refusal = "key_conflict"
)

// Refused reports whether err is a refusal that a key keeps for its repeats.
func Refused(err error) bool {
	return errors.Is(err, ErrNotFound) || errors.Is(err, ErrExists) || errors.Is(err, ErrOverflow)
}

// Answer is the result of a Request. It is stored as JSON under the request's key, for repeats.
type Answer struct {
	// Values are the counts after each change, in the order of the changes; none after a Delete or a refusal.
	Values []int64 `json:"values,omitempty"`
	// At is the database's time of the change.
	At time.Time `json:"at,omitzero"`
	// Refusal says why nothing was changed. Index is the change that was refused, or held up.
	Refusal Refusal `json:"refusal,omitempty"`
	Index   int     `json:"index,omitempty"`
	// Replayed says that this answers an earlier request with the key, and nothing was changed now. It may be set together
	// with an error.
	Replayed bool `json:"replayed,omitempty"`
	// HeldUp says that another transaction has a count of the request locked. Nothing was decided.
	HeldUp bool `json:"heldUp,omitempty"`
}

// Err returns the error of this package for a refusal, or nil.
func (a Answer) Err() error {
	err, known := map[Refusal]error{
		"": nil, refusedMissing: ErrNotFound, refusedExists: ErrExists, refusedOverflow: ErrOverflow,
		refusedKey: ErrKeyConflict,
	}[a.Refusal]
	if !known {
		return fmt.Errorf("counting: %q is no refusal", string(a.Refusal))
	}
	return err
}

// Count returns the count of the id after an applied Create or Set.
func (a Answer) Count(id ItemID) CountValue {
	if len(a.Values) == 0 {
		return CountValue{}
	}
	return CountValue{ItemID: id, Current: a.Values[0], UpdatedAt: a.At}
}
