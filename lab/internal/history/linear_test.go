package history

import (
	"strings"
	"testing"

	"github.com/rowlock/rowlock/lab/internal/targets"
)

// Every key is checked on its own, one that is wrong fails the check, and what was not
// applied has no effect.
func TestCheckKeys(t *testing.T) {
	t.Parallel()
	model := NewModel(0, func(value, delta int, op Op) []int {
		return When(op.Output == value+delta, value+delta)
	})
	var ops []Op
	for _, key := range []string{"a", "b", "c"} {
		ops = append(ops, Op{Key: key, Input: 1, Output: 1, Return: 1}, Op{Key: key, Outcome: targets.NotApplied, Input: 1})
	}
	if ok, detail, _ := Check(model, ops, ""); !ok {
		t.Error(detail)
	}
	ops[2].Output = 2
	ok, detail, _ := Check(model, ops, "")
	if ok || !strings.Contains(detail, "3 keys: illegal 1, undecided 0; first: b: 2 op") {
		t.Error(detail)
	}
}
