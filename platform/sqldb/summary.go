package sqldb

import (
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"
)

// A statement's summary names its span: the tables that it writes, or the first one
// that it reads, as in OpenTelemetry's db.query.summary.

const (
	maxSummaryPairs = 3
	maxQueryText    = 2048
	// The adapters' queries are constants except MySQL's, whose text depends on the
	// number of rows: long ones are not kept, so that they cannot fill the memory.
	longestKept = 1024
)

// description is the name and the text of a statement in a span.
type description struct{ summary, text string }

var descriptions sync.Map //nolint:gochecknoglobals // query -> description: a cache about the program's own statements

func describe(query string) description {
	if known, ok := descriptions.Load(query); ok {
		if d, ok := known.(description); ok {
			return d
		}
	}
	d := description{summarize(query), queryText(query)}
	if len(query) <= longestKept {
		descriptions.Store(query, d)
	}
	return d
}

// clauses finds what a statement writes, and what it reads: FROM a table, not FROM a
// function. The lock FOR UPDATE and the conflict's DO UPDATE are found too.
var clauses = regexp.MustCompile(
	`(?i)\b(insert into|delete from|(?:for |do )?update|from) ([a-z0-9_.]+)(?: ?\(|\b)`)

// summarize returns a short name of a statement: "UPDATE counts.count_values",
// "SELECT events.events". It contains names of tables as the program writes them,
// never a value. The name of a statement that begins with a comment is that comment.
func summarize(query string) string {
	text := strings.Join(strings.Fields(query), " ")
	if comment, _, ends := strings.Cut(text, " */"); ends && strings.HasPrefix(comment, "/* ") {
		return strings.TrimPrefix(comment, "/* ")
	}
	var writes []string
	reads := ""
	for _, found := range clauses.FindAllStringSubmatch(text, -1) {
		table := found[2]
		switch verb, _, _ := strings.Cut(strings.ToUpper(found[1]), " "); {
		case verb == "INSERT", verb == "DELETE", verb == "UPDATE":
			writes = append(writes, verb+" "+table)
		case verb == "FROM" && !strings.HasSuffix(found[0], "(") &&
			(reads == "" || !strings.Contains(reads, ".") && strings.Contains(table, ".")):
			reads = "SELECT " + table // a name with a schema is a table, one without may be a CTE
		}
	}
	switch first, _, _ := strings.Cut(text, " "); {
	case len(writes) > 0:
		return strings.Join(writes[:min(len(writes), maxSummaryPairs)], " ")
	case reads != "":
		return reads
	case first != "":
		return strings.ToUpper(first)
	}
	return "statement"
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
