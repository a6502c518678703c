package local

import (
	"fmt"
	"strings"
)

// OnBoth returns the URL of a database on two servers of this machine, by which a client finds the one that takes
// writes. one is the URL of the database on any of them.
func OnBoth(one string, first, second int) string {
	before, rest, _ := strings.Cut(one, "@")
	_, rest, _ = strings.Cut(rest, "/")
	return fmt.Sprintf("%s@/%s&host=127.0.0.1,127.0.0.1&port=%d,%d&target_session_attrs=read-write",
		before, rest, first, second)
}
