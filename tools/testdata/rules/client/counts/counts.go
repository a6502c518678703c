package counts

import (
	_ "github.com/rowlock/rowlock/platform/problem" // want depguard "list 'client'"
)
