package counting

import "errors"

// The errors that the ports return. Any other error comes from the repository and passes through the domain unchanged.
var (
	// ErrInvalidItemID says that an item id breaks the rules of ItemID.
	ErrInvalidItemID = errors.New("the item id is not valid")
	// ErrInvalidAmount says that an amount is below 1, or that the amount of a Change is 0 or the smallest int64.
	ErrInvalidAmount = errors.New("the amount is not valid")
	// ErrTooManyItems says that a read names no id or more than MaxItemsPerRead.
	ErrTooManyItems = errors.New("the number of item ids is not valid")
	// ErrTooManyChanges says that a request has no change or more than MaxChanges.
	ErrTooManyChanges = errors.New("the number of changes is not valid")
	// ErrInvalidLimit says that the limit of a page is below 1 or above MaxPageSize.
	ErrInvalidLimit = errors.New("the limit is not valid")
	// ErrKeyConflict says that the key was used for another request; this one did nothing.
	ErrKeyConflict = errors.New("the idempotency key was used for another request")
	// ErrNotFound says that no count has this id.
	ErrNotFound = errors.New("no count has this item id")
	// ErrExists says that a count has this id already.
	ErrExists = errors.New("a count has this item id already")
	// ErrNotSupported says that the repository does not support the request; nothing was changed.
	ErrNotSupported = errors.New("the database does not support this request")
	// ErrOverflow says that the value would leave the range of int64.
	ErrOverflow = errors.New("the count would leave the range of a 64-bit integer")
)
