package postgres

import "context"

// firstStarts returns the values before each step of an update that is replayed, as its first answer had them.
func (*Store) firstStarts(_ context.Context, _ *update, stored nullInts) ([]int64, error) {
	starts := make([]int64, len(stored))
	for i, s := range stored {
		starts[i] = s.value
	}
	return starts, nil
}
