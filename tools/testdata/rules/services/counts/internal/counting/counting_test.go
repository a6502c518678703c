package counting_test

import (
	_ "testing"

	_ "go.uber.org/goleak"

	_ "github.com/rowlock/rowlock/services/counts/internal/counting"
	_ "github.com/rowlock/rowlock/services/counts/internal/counting/countingtest"
)
