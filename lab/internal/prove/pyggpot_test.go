package prove

import "testing"

func TestPotModel(t *testing.T) {
	t.Parallel()
	add := func(b, s, g int32) potInput { return potInput{add: coins{b, s, g}} }
	draw := func(n int32) potInput { return potInput{draw: n} }
	look := potInput{}
	full := op(0, 1, done, add(potSize, 0, 0), coins{potSize})
	for name, tc := range map[string]struct {
		ops   ops
		legal bool
	}{
		"a life": {ops{
			op(0, 1, done, add(3, 2, 0), coins{3, 2, 0}), op(2, 3, done, potInput{remove: coins{9, 0, 1}}, coins{3, 0, 0}),
			op(4, 5, done, look, coins{0, 2, 0}), op(6, 7, done, draw(5), coins{0, 2, 0}),
		}, true},
		"coins from nowhere": {ops{op(0, 1, done, add(1, 0, 0), coins{1}), op(2, 3, done, look, coins{2})}, false},
		"one coin drawn twice": {ops{
			op(0, 1, done, add(1, 0, 0), coins{1}),
			op(2, 9, done, draw(1), coins{1}),
			op(2, 9, done, draw(1), coins{1}),
		}, false},
		"drawn what is not": {ops{
			op(0, 1, done, add(1, 0, 0), coins{1}), op(2, 3, done, draw(1), coins{0, 1, 0}),
		}, false},
		"drawn too few":         {ops{op(0, 1, done, add(5, 0, 0), coins{5}), op(2, 3, done, draw(3), coins{2})}, false},
		"over the brim":         {ops{full, op(2, 3, done, add(1, 0, 0), coins{1})}, false},
		"refused at the brim":   {ops{full, op(2, 3, refused, add(1, 0, 0), nil)}, true},
		"refused without cause": {ops{op(0, 1, refused, add(1, 0, 0), nil)}, false},
		"unknown draw, any": {ops{
			op(0, 1, done, add(1, 1, 0), coins{1, 1, 0}),
			op(2, 3, lost, draw(1), nil),
			op(4, 5, done, look, coins{0, 1, 0}),
		}, true},
		"unknown draw, two gone": {ops{
			op(0, 1, done, add(1, 1, 0), coins{1, 1, 0}),
			op(2, 3, lost, draw(1), nil),
			op(4, 5, done, look, coins{}),
		}, false},
	} {
		wantLegal(t, name, potModel(), tc.ops, tc.legal)
	}
}
