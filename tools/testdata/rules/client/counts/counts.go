package counts

import (
	"github.com/rowlock/rowlock/platform/problem" // want depguard "list 'client'"
)

var Used = problem.Error{}
