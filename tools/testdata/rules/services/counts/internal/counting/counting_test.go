package counting_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/rowlock/rowlock/services/counts/internal/counting"
	"github.com/rowlock/rowlock/services/counts/internal/counting/countingtest"
)

func TestRules(t *testing.T) {
	t.Log(rapid.Int(), counting.ErrNotFound, countingtest.Used)
}
