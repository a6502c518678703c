package observe

import (
	"strings"
	"testing"
)

// selector is a metric in an expression, with its matchers, each whole: `status=~"5.."`.
type selector struct {
	metric   string
	matchers []string
}

// String is the selector as PromQL.
func (s selector) String() string { return s.metric + "{" + strings.Join(s.matchers, ",") + "}" }

// isKeyword tells the words of PromQL that are neither metrics nor functions.
func isKeyword(word string) bool {
	switch strings.ToLower(word) {
	case "and", "or", "unless", "bool", "offset", "inf", "nan", "atan2":
		return true
	default:
		return false
	}
}

// beginsLabels tells those that a list of labels follows.
func beginsLabels(word string) bool {
	switch word {
	case "by", "without", "on", "ignoring", "group_left", "group_right":
		return true
	default:
		return false
	}
}

// selectors finds the metrics of an expression. It is no parser of PromQL, of which Prometheus has the one that
// counts, but knows enough to tell a metric from a function, a keyword and a label.
func selectors(expr string) []selector {
	var found []selector
	for rest := expr; rest != ""; {
		switch c := rest[0]; {
		case c == '"' || c == '\'' || c == '`':
			rest = rest[quoted(rest):]
		case c == '[':
			_, rest, _ = strings.Cut(rest, "]")
		case c >= '0' && c <= '9':
			rest = strings.TrimLeft(rest, "0123456789.eExsmhdwy")
		case wordChar(c):
			word := rest[:strings.IndexFunc(rest+" ", func(r rune) bool { return !wordChar(byte(r)) })]
			rest = strings.TrimLeft(rest[len(word):], " \n")
			switch {
			case beginsLabels(word):
				_, rest, _ = strings.Cut(rest, ")")
			case isKeyword(word):
			case strings.HasPrefix(rest, "("): // a function
			case strings.HasPrefix(rest, "by") || strings.HasPrefix(rest, "without"): // an aggregation
			default:
				s := selector{metric: word}
				s.matchers, rest = matchers(rest)
				found = append(found, s)
			}
		default:
			rest = rest[1:]
		}
	}
	return found
}

func wordChar(c byte) bool {
	return c == '_' || c == ':' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// quoted is the length of the string that text begins with.
func quoted(text string) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case text[0]:
			return i + 1
		}
	}
	return len(text)
}

// matchers reads those in braces, if any, and returns what follows.
func matchers(text string) (list []string, rest string) {
	if !strings.HasPrefix(text, "{") {
		return nil, text
	}
	begin := 1
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '"', '\'', '`':
			i += quoted(text[i:]) - 1
		case ',', '}':
			if m := strings.TrimSpace(text[begin:i]); m != "" {
				list = append(list, m)
			}
			if begin = i + 1; text[i] == '}' {
				return list, text[begin:]
			}
		}
	}
	return list, ""
}

func TestSelectors(t *testing.T) {
	t.Parallel()
	for expr, want := range map[string]string{
		`up`: `up{}`,
		`sum(rate(a_total{b="c",d=~"e|}f,"}[5m]))`:                                                        `a_total{b="c",d=~"e|}f,"}`,
		`histogram_quantile(0.99, sum by (le, x) (rate(h_bucket{le="0.2"}[1m])))`:                         `h_bucket{le="0.2"}`,
		`(a{x="1"} or 0 * b) / c`:                                                                         `a{x="1"} b{} c{}`,
		`max without (pod) (a) > bool 1e3 and on (x, y) group_left (z) b offset 5m`:                       `a{} b{}`,
		`count(ALERTS{alertname=~"R.+"}) or vector(0)`:                                                    `ALERTS{alertname=~"R.+"}`,
		`label_replace(vector(0), "a", "b_total", "", "")`:                                                ``,
		`sum(increase(a[10m])) by (x) > 14.4 * 0.001 unless c{d!=""}`:                                     `a{} c{d!=""}`,
		"predict_linear(a{x=\"\\\"}\"}[1h30m], 4 * 3600) < 0\n and absent(b)":                             `a{x="\"}"} b{}`,
		`quantile_over_time(0.9, max by (pod) (a:b_c{x=""})[10m:1m]) > Inf or topk(3, sum(d) by (e)) > 2`: `a:b_c{x=""} d{}`,
	} {
		var got []string
		for _, s := range selectors(expr) {
			got = append(got, s.String())
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%s\n has %s\nwant %s", expr, text, want)
		}
	}
}
