package observe

import (
	"regexp"
	"strings"
)

// selector is a metric in an expression, with its matchers, such as `status=~"5.."`.
type selector struct {
	metric   string
	matchers []string
}

// String returns the selector as PromQL.
func (s selector) String() string { return s.metric + "{" + strings.Join(s.matchers, ",") + "}" }

// token matches what an expression consists of. Strings, ranges, numbers, keywords and lists of labels come first, so
// that what is left for the groups are names, with their matchers and, of functions, the parenthesis.
var token = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|\[[^\]]*\]|\b\d[\w.]*` +
	`|(?:\b\w+\s+)?\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)` +
	`|\b(?:and|or|unless|bool|offset|Inf|NaN|group_left|group_right)\b` +
	`|([a-zA-Z_:][\w:]*)(\{(?:[^}"]|"(?:[^"\\]|\\.)*")*\})?\s*(\()?`)

var matcher = regexp.MustCompile(`\w+\s*(?:=~|!~|!=|=)\s*"(?:[^"\\]|\\.)*"`)

// selectors returns the metrics of an expression. It is no parser, but distinguishes a metric from a function, a
// keyword and a label.
func selectors(expr string) (found []selector) {
	for _, m := range token.FindAllStringSubmatch(expr, -1) {
		if m[1] != "" && m[3] == "" {
			found = append(found, selector{m[1], matcher.FindAllString(m[2], -1)})
		}
	}
	return found
}
