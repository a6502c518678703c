package counting_test

import (
	_ "testing"

	_ "pgregory.net/rapid"

	_ "github.com/rowlock/rowlock/services/counts/internal/counting"
	_ "github.com/rowlock/rowlock/services/counts/internal/counting/countingtest"
)
