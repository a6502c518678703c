package httpapi

import (
	"errors"
	"net/url"
	"strconv"
	"strings"

	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// parseList parses a query for several counts: the ids in their order, under either spelling of the parameter, or a
// page. url.ParseQuery keeps the order only within one spelling, so it gets one pair at a time.
func parseList(query string) ([]counting.ItemID, *page, error) {
	var ids []counting.ItemID
	paging := make(map[string]string)
	for pair := range strings.SplitSeq(query, "&") {
		values, err := url.ParseQuery(pair)
		if err != nil {
			name, _, _ := strings.Cut(pair, "=")
			if !ofPages(name) {
				name = fieldItemIDs
			}
			return nil, nil, invalid(name, "The query is not well formed.", err)
		}

		for name, value := range values { // at most one
			_, twice := paging[name]
			switch {
			case name == fieldItemIDs, name == fieldItemIDs+"[]":
				id, err := parseID(fieldItemIDs, value[0])
				if err != nil {
					return nil, nil, err
				}
				ids = append(ids, id)
			case twice:
				return nil, nil, invalid(name, "The parameter "+name+" is given twice.", nil)
			case ofPages(name):
				paging[name] = value[0]
			}
		}
	}

	switch {
	case len(paging) == 0:
		return ids, nil, nil
	case len(ids) > 0:
		return nil, nil, invalid(fieldItemIDs, "Ask by itemIds, or for a page by prefix, after and limit, not both.", nil)
	}
	p, err := parsePage(paging)
	return nil, p, err
}

// ofPages reports whether a parameter belongs to a query for a page.
func ofPages(name string) bool {
	return name == fieldPrefix || name == fieldAfter || name == fieldLimit
}

// page is a query for a page of counts.
type page struct {
	prefix, after string // empty: all counts, from the first
	limit         int
}

func parsePage(paging map[string]string) (*page, error) {
	p := page{prefix: paging[fieldPrefix], after: paging[fieldAfter], limit: counting.DefaultPageSize}
	for _, field := range []string{fieldPrefix, fieldAfter} {
		if text := paging[field]; text != "" {
			if _, err := parseID(field, text); err != nil {
				return nil, err
			}
		}
	}

	if text, ok := paging[fieldLimit]; ok {
		// A number out of range becomes the largest, which the domain refuses.
		limit, err := strconv.ParseUint(text, 10, 31)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return nil, invalid(fieldLimit, "The limit must be digits.", err)
		}
		p.limit = int(limit)
	}
	return &p, nil
}

// next returns the URL of the page that begins after the id.
func (p *page) next(after counting.ItemID) string {
	query := url.Values{fieldLimit: {strconv.Itoa(p.limit)}, fieldAfter: {string(after)}}
	if p.prefix != "" {
		query.Set(fieldPrefix, p.prefix)
	}
	return internalCounts + "?" + query.Encode()
}

func parseID(field, text string) (counting.ItemID, error) {
	id, err := counting.NewItemID(text)
	if err != nil {
		return "", invalid(field, problem.Sentence(err), err)
	}
	return id, nil
}

func invalid(field, detail string, cause error) error {
	return problem.InvalidField.New(detail, problem.Field(field), problem.Cause(cause))
}

// pathSegment escapes an id as one segment of a path. It also escapes the dots of "." and "..", which would otherwise
// navigate. A browser may resolve them all the same (WHATWG URL), a program does not.
func pathSegment(id string) string {
	if id == "." || id == ".." {
		return strings.ReplaceAll(id, ".", "%2E")
	}
	return url.PathEscape(id)
}
