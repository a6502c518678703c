package sqldb

import (
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"
)

// A statement's summary names its span: the tables that it writes, or the first one
// that it reads, as in OpenTelemetry's db.query.summary.

const (
	maxSummaryPairs = 3
	maxQueryText    = 2048
	// The adapters' queries are constants except MySQL's, whose text depends on the
	// number of rows: long ones are not cached, so that they cannot fill the cache.
	maxDescriptions = 512
	longestKept     = 1024
)

// description is the name and the text of a statement in a span.
type description struct{ summary, text string }

//nolint:gochecknoglobals // a cache about the program's own statements
var (
	descriptions     sync.Map // query -> description
	descriptionsKept atomic.Int64
)

// Summary returns a short name of a statement: "UPDATE counts.count_values",
// "SELECT events.events". It contains names of tables as the program writes them,
// never a value. The name of a statement that begins with a comment is that comment.
func Summary(query string) string { return describe(query).summary }

func describe(query string) description {
	if known, ok := descriptions.Load(query); ok {
		if d, ok := known.(description); ok {
			return d
		}
	}
	d := description{summarize(query), queryText(query)}
	if len(query) <= longestKept && descriptionsKept.Load() < maxDescriptions {
		if _, loaded := descriptions.LoadOrStore(query, d); !loaded {
			descriptionsKept.Add(1)
		}
	}
	return d
}

func summarize(query string) string {
	if comment, _, ends := strings.Cut(query, " */"); ends {
		if name, is := strings.CutPrefix(comment, "/* "); is {
			return name
		}
	}
	words := strings.Fields(strings.NewReplacer("(", " ( ", ")", " ", ",", " ", ";", " ").Replace(query))
	var writes []string
	reads := ""
	for i := range words {
		word := strings.ToUpper(words[i])
		next, after := at(words, i+1), at(words, i+2)
		switch {
		case word == "INSERT" && strings.EqualFold(next, "INTO"), word == "DELETE" && strings.EqualFold(next, "FROM"):
			writes = append(writes, word+" "+after)
		case word == "UPDATE" && isTable(next) && !isLocking(at(words, i-1)):
			writes = append(writes, word+" "+next)
		case word == "FROM" && isTable(next) && after != "(" &&
			(reads == "" || !strings.Contains(reads, ".") && strings.Contains(next, ".")):
			reads = "SELECT " + next // a name with a schema is a table, one without may be a CTE
		}
	}
	switch {
	case len(writes) > 0:
		return strings.Join(writes[:min(len(writes), maxSummaryPairs)], " ")
	case reads != "":
		return reads
	case len(words) > 0:
		return strings.ToUpper(words[0])
	}
	return "statement"
}

func at(words []string, i int) string {
	if i < 0 || i >= len(words) {
		return ""
	}
	return words[i]
}

// isLocking reports whether the word before UPDATE makes it FOR UPDATE or DO UPDATE.
func isLocking(word string) bool {
	return strings.EqualFold(word, "FOR") || strings.EqualFold(word, "DO")
}

// isTable reports whether a word can be a table's name.
func isTable(word string) bool {
	return word != "" && strings.Trim(strings.ToLower(word), "abcdefghijklmnopqrstuvwxyz0123456789_.") == ""
}

// queryText returns a statement as a span shows it: one line of at most
// maxQueryText bytes.
func queryText(query string) string {
	text := strings.Join(strings.Fields(query), " ")
	if len(text) <= maxQueryText {
		return text
	}
	cut := maxQueryText
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}
