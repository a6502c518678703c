package sqldb

import (
	"slices"
	"strings"
)

// A statement's summary names its span: the tables that it writes, or the first one
// that it reads, as in OpenTelemetry's db.query.summary.

const (
	maxSummaryPairs = 3
	maxQueryText    = 2048
)

// summarize returns a short name of a statement, given by its words: "UPDATE
// counts.count_values", "SELECT events.events". It contains names of tables as the program
// writes them, never a value. The name of a statement that begins with a comment is that
// comment.
func summarize(words []string) string {
	if len(words) == 0 {
		return "statement"
	}
	if end := slices.Index(words, "*/"); words[0] == "/*" && end > 0 {
		return strings.Join(words[1:end], " ")
	}

	var writes []string
	read, before := "", ""
	for i, word := range words[1:] {
		verb := strings.ToUpper(strings.TrimLeft(words[i], "("))
		table, _, function := strings.Cut(strings.TrimRight(word, ",;)"), "(")
		switch {
		case verb == "INTO":
			writes = append(writes, "INSERT "+table)
		case verb == "UPDATE" && before != "DO" && before != "FOR":
			writes = append(writes, "UPDATE "+table)
		case verb == "FROM" && before == "DELETE":
			writes = append(writes, "DELETE "+table)
		case verb == "FROM" && !function && !strings.ContainsAny(table, "'$") &&
			(read == "" || !strings.Contains(read, ".") && strings.Contains(table, ".")):
			read = table // a name with a schema is a table, one without may be a CTE
		}
		before = verb
	}

	switch {
	case len(writes) > 0:
		return strings.Join(writes[:min(len(writes), maxSummaryPairs)], " ")
	case read != "":
		return "SELECT " + read
	}
	return strings.ToUpper(words[0])
}

// queryText returns a statement as a span shows it: one line of at most
// maxQueryText bytes.
func queryText(words []string) string {
	text := strings.Join(words, " ")
	if len(text) > maxQueryText {
		text = strings.ToValidUTF8(text[:maxQueryText], "") + "…"
	}
	return text
}
