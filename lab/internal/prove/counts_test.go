package prove

import "testing"

func TestCountModel(t *testing.T) {
	t.Parallel()
	const read = int64(0)
	for name, tc := range map[string]struct {
		ops   ops
		legal bool
	}{
		"one after the other": {ops{
			op(0, 1, done, int64(5), int64(5)), op(2, 3, done, int64(-2), int64(3)), op(4, 5, done, read, int64(3)),
		}, true},
		"at once, in either order": {ops{op(0, 9, done, int64(5), int64(7)), op(1, 8, done, int64(2), int64(2))}, true},
		"a lost increase":          {ops{op(0, 1, done, int64(5), int64(5)), op(2, 3, done, read, int64(0))}, false},
		"an increase made twice":   {ops{op(0, 1, done, int64(5), int64(10))}, false},
		"a stale read": {ops{
			op(0, 1, done, int64(5), int64(5)), op(2, 3, done, int64(1), int64(6)), op(4, 5, done, read, int64(5)),
		}, false},
		"one answer given twice": {ops{op(0, 9, done, int64(1), int64(1)), op(0, 9, done, int64(1), int64(1))}, false},
		"unknown and done":       {ops{op(0, 1, lost, int64(5), nil), op(2, 3, done, read, int64(5))}, true},
		"unknown and done late": {ops{
			op(0, 1, lost, int64(5), nil), op(2, 3, done, read, int64(0)), op(4, 5, done, read, int64(5)),
		}, true},
		"unknown and not done":   {ops{op(0, 1, lost, int64(5), nil), op(2, 3, done, read, int64(0))}, true},
		"unknown and done twice": {ops{op(0, 1, lost, int64(5), nil), op(2, 3, done, read, int64(10))}, false},
		"not applied, but done":  {ops{op(0, 1, undone, int64(5), nil), op(2, 3, done, read, int64(5))}, false},
	} {
		wantLegal(t, name, countModel(), tc.ops, tc.legal)
	}
}
