package httpapi

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// itemIDs reads the ids of a query in the order asked, under either spelling
// of the parameter. (url.ParseQuery keeps the order only within one spelling.)
func itemIDs(query string) ([]counting.ItemID, error) {
	var ids []counting.ItemID
	for pair := range strings.SplitSeq(query, "&") {
		name, value, err := unescape(pair)
		if err != nil {
			return nil, problem.InvalidField.New("The query is not well formed.", problem.Field(fieldItemIDs), problem.Cause(err))
		}
		if name != fieldItemIDs && name != fieldItemIDs+"[]" {
			continue
		}
		id, err := counting.NewItemID(value)
		if err != nil {
			return nil, problem.InvalidField.New(sentence(err), problem.Field(fieldItemIDs), problem.Cause(err))
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// unescape splits a pair of a query as url.ParseQuery does: a semicolon is
// refused, because others take it for a separator.
func unescape(pair string) (name, value string, err error) {
	if strings.Contains(pair, ";") {
		return "", "", fmt.Errorf("a semicolon in %d bytes of query", len(pair))
	}
	name, value, _ = strings.Cut(pair, "=")
	if name, err = url.QueryUnescape(name); err != nil {
		return "", "", fmt.Errorf("a parameter's name: %w", err)
	}
	if value, err = url.QueryUnescape(value); err != nil {
		return "", "", fmt.Errorf("a parameter's value: %w", err)
	}
	return name, value, nil
}

// pathSegment escapes an id as one segment of a path. A segment of dots alone
// means another place in a path, so its dots are escaped too; a browser may
// resolve it all the same (WHATWG URL), a program does not.
func pathSegment(id string) string {
	if id == "." || id == ".." {
		return strings.ReplaceAll(id, ".", "%2E")
	}
	return url.PathEscape(id)
}
