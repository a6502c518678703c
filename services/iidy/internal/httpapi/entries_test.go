package httpapi_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/rowlock/rowlock/platform/strictjson"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
	"github.com/rowlock/rowlock/services/iidy/internal/httpapi"
)

// listed is a repository whose pages and claims have these entries.
type listed struct {
	attempt.Repository

	entries []attempt.Entry
	open    *int // the pages that are not closed
}

func (l listed) give() attempt.Entries {
	lines := make([]string, 0, len(l.entries))
	for _, e := range l.entries {
		lines = append(lines, string(e.Item)+" "+strconv.FormatInt(e.Attempts, 10))
	}
	*l.open++
	return attempt.NewEntries(strings.Join(lines, "\n"), func() { *l.open-- })
}

func (l listed) Page(context.Context, attempt.List, string, int) (attempt.Entries, error) {
	return l.give(), nil
}

func until() time.Time { return time.Date(2026, 11, 22, 20, 15, 0, 120_000, time.UTC) }

func (l listed) Claim(context.Context, attempt.List, int, time.Duration) (attempt.Lease, error) {
	return attempt.Lease{Claim: claim, Until: until(), Entries: l.give()}, nil
}

// everyCharacter returns items with every character that an item may have, some with spaces around.
func everyCharacter() []attempt.Entry {
	var all []attempt.Entry
	for r := rune(1); r <= utf8.MaxRune; r++ {
		if !utf8.ValidRune(r) || r == '\n' || r == '\r' || r > 0xffff && r%0x101 != 0 {
			continue
		}
		if len(all) == 0 || len(all[len(all)-1].Item) > 300 {
			all = append(all, attempt.Entry{Item: " ", Attempts: int64(r) << 40})
		}
		all[len(all)-1].Item += attempt.Item(r)
	}
	return append(all, attempt.Entry{Item: "a 7 "}, attempt.Entry{Item: `\u2028"\`})
}

// Pages and claims are to the byte what the types of the contract are when they are encoded whole, short ones and
// those that are encoded while they are written.
func TestEntriesAreEncodedAsTheContractSays(t *testing.T) {
	t.Parallel()
	every := everyCharacter()
	for name, entries := range map[string][]attempt.Entry{
		"none": nil, "one": every[:1], "short": every[:200], "all": every, "long": slices.Repeat(every, 8),
		"longest": {{Item: attempt.Item(strings.Repeat("x", 1<<20)), Attempts: 1<<63 - 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			open := 0
			s := newServer(t, listed{entries: entries, open: &open}, 0)
			var text strings.Builder
			all := []httpapi.Entry{}
			for _, e := range entries {
				fmt.Fprintf(&text, "%s %d\n", e.Item, e.Attempts)
				all = append(all, httpapi.Entry{Item: string(e.Item), Attempts: e.Attempts})
			}
			id, end := uuid.MustParse(claim), until()
			for _, c := range []struct {
				method, query string
				document      any
			}{
				{"GET", "?count=10000", httpapi.Page{Listentries: all}},
				{"POST", "?action=claim&count=10000&lease=1h", httpapi.Changed{Claim: &id, LeaseUntil: &end, Listentries: &all}},
			} {
				whole, err := strictjson.Marshal(c.document)
				if err != nil {
					t.Fatal(err)
				}
				for want, h := range map[string]header{text.String(): plain, string(whole) + "\n": inJSON} {
					a := s.Do(c.method, batch+c.query, "", h...)
					if a.Status != 200 || a.Body != want {
						t.Errorf("%s %s %v: %d with %d bytes, want %d", c.method, c.query, h, a.Status, len(a.Body), len(want))
					}
					if length := a.Header.Get("Content-Length"); length != strconv.Itoa(len(want)) && len(want) > 2<<10 {
						t.Errorf("%s %s %v: Content-Length %q of %d bytes", c.method, c.query, h, length, len(want))
					}
				}
			}
			if open != 0 {
				t.Errorf("%d pages were not closed", open)
			}
		})
	}
}

// gone is a client that has left.
type gone struct{ *httptest.ResponseRecorder }

func (gone) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// A page or a claim whose client leaves gives back what it holds of the replica's memory. Its connection is cut: no
// client takes a part for the whole.
func TestEntriesAreClosedWhenTheClientLeaves(t *testing.T) {
	t.Parallel()
	open := 0
	s := newServer(t, listed{entries: slices.Repeat(everyCharacter(), 8), open: &open}, 0)
	for _, accept := range []string{"text/plain", "application/json"} {
		for method, query := range map[string]string{"GET": "?count=9", "POST": "?action=claim&count=9&lease=1h"} {
			r := httptest.NewRequestWithContext(t.Context(), method, batch+query, nil)
			r.Header.Set("Accept", accept)
			func() {
				defer func() {
					if cut := recover(); cut != http.ErrAbortHandler { //nolint:errorlint // the very value
						t.Errorf("%s of %s: %v", accept, query, cut)
					}
				}()
				s.ServeHTTP(gone{httptest.NewRecorder()}, r)
			}()
		}
	}
	if open != 0 {
		t.Errorf("%d answers were not closed", open)
	}
}
