package httpapi

import (
	"net/url"
	"strings"

	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// itemIDs reads the ids of a query in the order asked, under either spelling of the parameter. (url.ParseQuery keeps
// the order only within one spelling, so it gets one pair at a time.)
func itemIDs(query string) ([]counting.ItemID, error) {
	var ids []counting.ItemID
	for pair := range strings.SplitSeq(query, "&") {
		values, err := url.ParseQuery(pair)
		if err != nil {
			return nil, problem.InvalidField.New("The query is not well formed.", problem.Field(fieldItemIDs),
				problem.Cause(err))
		}
		for _, value := range append(values[fieldItemIDs], values[fieldItemIDs+"[]"]...) {
			id, err := counting.NewItemID(value)
			if err != nil {
				return nil, problem.InvalidField.New(problem.Sentence(err), problem.Field(fieldItemIDs), problem.Cause(err))
			}
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// pathSegment escapes an id as one segment of a path. The dots of the segments "." and ".." are escaped too: they mean
// another place in a path. A browser may resolve them all the same (WHATWG URL), a program does not.
func pathSegment(id string) string {
	if id == "." || id == ".." {
		return strings.ReplaceAll(id, ".", "%2E")
	}
	return url.PathEscape(id)
}
