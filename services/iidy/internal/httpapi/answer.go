package httpapi

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	httpserver "github.com/rowlock/rowlock/platform/httpold"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
)

// textType is the header's value, shared: nobody changes a header's value in place.
//
//nolint:gochecknoglobals // a constant that Go cannot spell
var textType = []string{"text/plain; charset=utf-8"}

// The JSON bodies.
type (
	entry struct {
		Item     string `json:"item"`
		Attempts int64  `json:"attempts"`
	}
	page struct {
		Entries []entry `json:"listentries"`
	}
	lease struct {
		Claim   string  `json:"claim"`
		Until   string  `json:"lease_until"`
		Entries []entry `json:"listentries"`
	}
	progress struct {
		Items    int64   `json:"items"`
		Claimed  int64   `json:"claimed"`
		Attempts buckets `json:"attempts"`
	}
	buckets struct {
		B0 int64 `json:"0"`
		B1 int64 `json:"1"`
		B2 int64 `json:"2"`
		B3 int64 `json:"3"`
		B4 int64 `json:"4"`
		B5 int64 `json:"5+"`
	}
)

// timeLayout is RFC 3339 in UTC with microseconds, PostgreSQL's resolution.
const timeLayout = "2006-01-02T15:04:05.000000Z"

// writeText answers lines that end in a line break each.
func writeText(w http.ResponseWriter, status int, body []byte) error {
	h := w.Header()
	h["Content-Type"] = textType
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	if _, err := w.Write(body); err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	return nil
}

// writeCount answers how many items were changed: ADDED 8, {"added":8}.
func writeCount(w http.ResponseWriter, r *http.Request, status int, verb string, n int64) error {
	if answerFormat(r) == text {
		body := strconv.AppendInt(append([]byte(strings.ToUpper(verb)), ' '), n, 10)
		return writeText(w, status, append(body, '\n'))
	}
	return httpserver.WriteJSON(w, status, map[string]int64{verb: n})
}

func toEntries(entries []attempt.Entry) []entry {
	all := make([]entry, len(entries))
	for i, e := range entries {
		all[i] = entry{string(e.Item), e.Attempts}
	}
	return all
}

// writeEntries answers the lines of a page or a claim; asJSON is the same in JSON.
func writeEntries(w http.ResponseWriter, r *http.Request, entries []attempt.Entry, asJSON any) error {
	if answerFormat(r) == inJSON {
		return httpserver.WriteJSON(w, http.StatusOK, asJSON)
	}
	size := 0
	const digits = 21
	for _, e := range entries {
		size += len(e.Item) + digits
	}
	body := make([]byte, 0, size)
	for _, e := range entries {
		body = append(append(body, e.Item...), ' ')
		body = append(strconv.AppendInt(body, e.Attempts, 10), '\n')
	}
	return writeText(w, http.StatusOK, body)
}

// writePage answers a page, with where to go on.
func writePage(w http.ResponseWriter, r *http.Request, list attempt.List, count int, entries []attempt.Entry) error {
	if len(entries) > 0 {
		last := string(entries[len(entries)-1].Item)
		h := w.Header()
		if inHeader(last) {
			h["X-Iidy-Last-Item"] = []string{last}
		}
		h.Set("Link", fmt.Sprintf(`<%s%s?count=%d&after_id=%s>; rel="next"`, batchPath, pathSegment(string(list)), count, queryValue(last)))
	}
	return writeEntries(w, r, entries, page{toEntries(entries)})
}

// inHeader tells whether an item arrives as the value of a header: a space at
// either end does not, and a control character breaks HTTP. The header Link is
// always exact.
func inHeader(item string) bool {
	if strings.Trim(item, " \t") != item {
		return false
	}
	for i := range len(item) {
		if item[i] < ' ' && item[i] != '\t' || item[i] == 0x7f {
			return false
		}
	}
	return true
}

// writeLease answers what a claim took.
func writeLease(w http.ResponseWriter, r *http.Request, l attempt.Lease) error {
	if l.Claim == "" {
		return writeEntries(w, r, nil, page{toEntries(nil)})
	}
	w.Header()["X-Iidy-Claim"] = []string{string(l.Claim)}
	return writeEntries(w, r, l.Entries, lease{string(l.Claim), l.Until.In(time.UTC).Format(timeLayout), toEntries(l.Entries)})
}

// writeProgress answers how a list stands.
func writeCounts(w http.ResponseWriter, r *http.Request, p attempt.Counts) error {
	if answerFormat(r) == inJSON {
		a := p.Attempts
		return httpserver.WriteJSON(w, http.StatusOK, progress{p.Items, p.Claimed, buckets{a[0], a[1], a[2], a[3], a[4], a[5]}})
	}
	body := fmt.Appendf(nil, "items %d\nclaimed %d\n", p.Items, p.Claimed)
	for i, n := range p.Attempts {
		more := ""
		if i == len(p.Attempts)-1 {
			more = "+"
		}
		body = fmt.Appendf(body, "attempts %d%s %d\n", i, more, n)
	}
	return writeText(w, http.StatusOK, body)
}
