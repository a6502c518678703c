package observe

import (
	"regexp"
	"strings"
	"testing"
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

func TestSelectors(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{
		{`up`, `up{}`},
		{`sum(rate(a_total{b="c",d=~"e|}f,"}[5m]))`, `a_total{b="c",d=~"e|}f,"}`},
		{`histogram_quantile(0.99, sum by (le, x) (rate(h_bucket{le="0.2"}[1m])))`, `h_bucket{le="0.2"}`},
		{`(a{x="1"} or 0 * b) / c`, `a{x="1"} b{} c{}`},
		{`max without (pod) (a) > bool 1e3 and on (x, y) group_left (z) b offset 5m`, `a{} b{}`},
		{`count(ALERTS{alertname=~"R.+"}) or vector(0)`, `ALERTS{alertname=~"R.+"}`},
		{`label_replace(vector(0), "a", "b_total", "", "")`, ``},
		{`sum(increase(a[10m])) by (x) > 14.4 * 0.001 unless c{d!=""}`, `a{} c{d!=""}`},
		{"predict_linear(a{x=\"\\\"}\"}[1h30m], 4 * 3600) < 0\n and absent(b)", `a{x="\"}"} b{}`},
		{`quantile_over_time(0.9, max by (pod) (a:b_c{x=""})[10m:1m]) > Inf`, `a:b_c{x=""}`},
		{`topk(3, sum(d) by (e)) > 2`, `d{}`},
	} {
		expr, want := c[0], c[1]
		var got []string
		for _, s := range selectors(expr) {
			got = append(got, s.String())
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%s\n has %s\nwant %s", expr, text, want)
		}
	}
}
