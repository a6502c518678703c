package counting

import (
	"errors"
	"fmt"
	"time"
)

// Operation is what a Request does to its counts.
type Operation uint8

// The operations.
const (
	// Add adds each change to its count.
	Add Operation = iota
	// Create stores a new count with the value Delta of the only change.
	Create
	// Set gives the count the value Delta of the only change.
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
	// CreateMissing lets Add create the counts that do not exist, with 0, before the changes.
	CreateMissing bool
}

// Plain reports whether r adds to one count and no more: it has no key and creates nothing.
func (r Request) Plain() bool {
	return r.Operation == Add && r.Simple()
}

// Simple reports whether r changes one count and has no key, so that it is of one shard.
func (r Request) Simple() bool { return len(r.Changes) == 1 && r.Key.Value == "" && !r.CreateMissing }

// Refusal says why a request changed nothing; it is empty where the request was applied.
type Refusal string

// The refusals, each of which stands for an error of this package.
const (
	refusedMissing  Refusal = "not_found"
	refusedExists   Refusal = "exists"
	refusedOverflow Refusal = "overflow"
	refusedKey      Refusal = "key_conflict"
)

// err returns the error that stands for the refusal, or nil for none.
func (r Refusal) err() error {
	switch r {
	case "":
		return nil
	case refusedMissing:
		return ErrNotFound
	case refusedExists:
		return ErrExists
	case refusedOverflow:
		return ErrOverflow
	case refusedKey:
		return ErrKeyConflict
	}
	return fmt.Errorf("counting: %q is no refusal", string(r))
}

// Refused reports whether err is a refusal that a key keeps for its repeats.
func Refused(err error) bool {
	return errors.Is(err, ErrNotFound) || errors.Is(err, ErrExists) || errors.Is(err, ErrOverflow)
}

// Answer is what a Request is told. It is stored as JSON, for the repeats of the request's key.
type Answer struct {
	// Values are the counts after each change, in the order of the changes; none after a Delete or a refusal.
	Values []int64 `json:"values,omitempty"`
	// At is the database's time of the change.
	At time.Time `json:"at,omitzero"`
	// Refusal says that nothing was changed, and Index because of which change.
	Refusal Refusal `json:"refusal,omitempty"`
	Index   int     `json:"index,omitempty"`
	// Replayed says that an earlier request with the key was told this, and nothing was changed now.
	Replayed bool `json:"replayed,omitempty"`
	// HeldUp says that another transaction has a count of the request locked. Nothing was decided.
	HeldUp bool `json:"heldUp,omitempty"`
}

// Err returns the error that a refused r gets, within a *ChangeError where r has several changes, or nil.
func (a Answer) Err(r Request) error {
	err := a.Refusal.err()
	if len(r.Changes) > 1 && (errors.Is(err, ErrNotFound) || errors.Is(err, ErrOverflow)) {
		return &ChangeError{Index: a.Index, Err: err}
	}
	return err
}

// Count returns the count that an applied Create or Set of r has left.
func (a Answer) Count(r Request) CountValue {
	if len(a.Values) == 0 {
		return CountValue{}
	}
	return CountValue{ItemID: r.Changes[0].ItemID, Current: a.Values[0], UpdatedAt: a.At}
}
