package httpapi_test

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/rowlock/rowlock/platform/httpserver"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
	"github.com/rowlock/rowlock/services/iidy/internal/httpapi"
)

// Every call of the API, in text and in JSON, to the byte.
func TestEveryCall(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]struct {
		header header
		say    func(text, json string) string
		items  func(items ...string) string
	}{
		"text": {
			plain,
			func(text, _ string) string { return text },
			func(items ...string) string { return strings.Join(items, "\n") },
		},
		"JSON": {inJSON, func(_, json string) string { return json }, func(items ...string) string {
			body, err := json.Marshal(map[string][]string{"items": items})
			if err != nil {
				t.Error(err)
			}
			return string(body)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := onDatabase(t)
			h, say := f.header, f.say
			s.want("POST", items+"/a.txt", "", h, 201, say("ADDED 1", `{"added":1}`))
			s.want("POST", items+"/a.txt", "", h, 201, say("ADDED 0", `{"added":0}`))
			s.want("GET", items+"/a.txt", "", h, 200, say("0", `{"item":"a.txt","attempts":0}`))
			s.want("POST", items+"/a.txt?action=increment", "", h, 200, say("INCREMENTED 1", `{"incremented":1}`))
			s.want("POST", incrementItems+"/a.txt", "", h, 200, say("INCREMENTED 1", `{"incremented":1}`))
			s.want("GET", items+"/a.txt", "", h, 200, say("2", `{"item":"a.txt","attempts":2}`))
			if a := s.do("HEAD", items+"/a.txt", "", h); a.Status != 200 {
				t.Errorf("HEAD of an item: %d", a.Status)
			}
			s.want("DELETE", items+"/a.txt", "", h, 200, say("DELETED 1", `{"deleted":1}`))
			s.refused("GET", items+"/a.txt", "", h, 404, "ITEM_NOT_FOUND", "")
			if a := s.do("HEAD", items+"/a.txt", "", h); a.Status != 404 {
				t.Errorf("HEAD of a missing item: %d", a.Status)
			}
			if a := s.do("HEAD", items, "", h); a.Status != 404 || a.Header.Get("X-Error-Code") != "LIST_NOT_FOUND" {
				t.Errorf("HEAD of a missing list: %d %v", a.Status, a.Header)
			}
			s.want("POST", batch, f.items("h", "g", "f", "e", "d", "c", "b", "a", "a"), h, 201, say("ADDED 8", `{"added":8}`))
			if a := s.do("HEAD", items, "", h); a.Status != 200 || a.Body != "" {
				t.Errorf("HEAD of a list: %d %q", a.Status, a.Body)
			}
			s.want("POST", batch+"?action=increment", f.items("c", "d", "x"), h, 200, say("INCREMENTED 2", `{"incremented":2}`))
			s.want("POST", incrementBatch, f.items("d"), h, 200, say("INCREMENTED 1", `{"incremented":1}`))
			page := s.want("GET", batch+"?count=2&after_id=c", "", h, 200,
				say("d 2\ne 0", `{"listentries":[{"item":"d","attempts":2},{"item":"e","attempts":0}]}`))
			last, link := page.Header.Get("X-Iidy-Last-Item"), page.Header.Get("Link")
			if last != "e" || link != `<`+batch+`?count=2&after_id=e>; rel="next"` {
				t.Errorf("the page's headers are %q and %q", last, link)
			}
			for _, path := range []string{batch + "?count=0", batch + "?count=10000&after_id=h"} {
				a := s.want("GET", path, "", h, 200, say("", `{"listentries":[]}`))
				if _, ok := a.Header["X-Iidy-Last-Item"]; ok || a.Header.Get("Link") != "" {
					t.Errorf("an empty page has headers: %v", a.Header)
				}
			}
			s.want("DELETE", batch, f.items("a", "b", "c", "nothing"), h, 200, say("DELETED 3", `{"deleted":3}`))
			s.want("GET", items, "", h, 200, say(
				"items 5\nclaimed 0\nattempts 0 4\nattempts 1 0\nattempts 2 1\nattempts 3 0\nattempts 4 0\nattempts 5+ 0",
				`{"items":5,"claimed":0,"attempts":{"0":4,"1":0,"2":1,"3":0,"4":0,"5+":0}}`))
			s.want("POST", batch+"?action=delete", f.items("h", "nothing"), h, 200, say("DELETED 1", `{"deleted":1}`))
			s.want("POST", batch, f.items("h"), h, 201, say("ADDED 1", `{"added":1}`))
			s.want("DELETE", batch+"?min_attempts=2", "", h, 200, say("DELETED 1", `{"deleted":1}`))

			a := s.do("POST", batch+"?action=claim&count=2&lease=60s", "", h)
			claim := a.Header.Get("X-Iidy-Claim")
			if _, err := attempt.ParseClaim(claim); err != nil || a.Status != 200 {
				t.Fatalf("claim: %d %v %q", a.Status, a.Header, a.Body)
			}
			want := say("e 0\nf 0\n", `"listentries":[{"item":"e","attempts":0},{"item":"f","attempts":0}]}`+"\n")
			if !strings.HasSuffix(a.Body, want) {
				t.Errorf("claimed %q", a.Body)
			}
			begin := `{"claim":"` + claim + `","lease_until":"2`
			if name == "JSON" && (!strings.HasPrefix(a.Body, begin) || !strings.Contains(a.Body, `Z","listentries"`)) {
				t.Errorf("claimed %q", a.Body)
			}
			s.want("POST", items+"/g?action=increment&claim="+claim, "", h, 200, say("INCREMENTED 0", `{"incremented":0}`))
			s.want("POST", incrementItems+"/e?claim="+claim, "", h, 200, say("INCREMENTED 1", `{"incremented":1}`))
			s.want("POST", batch+"?action=increment&claim="+claim, f.items("e", "f", "g"), h, 200,
				say("INCREMENTED 2", `{"incremented":2}`))
			s.want("POST", incrementBatch+"?claim="+claim, f.items("e"), h, 200, say("INCREMENTED 1", `{"incremented":1}`))
			s.want("POST", batch+"?action=extend&lease=1h&claim="+claim, "", h, 200, say("EXTENDED 2", `{"extended":2}`))
			s.want("DELETE", batch+"?claim="+claim, f.items("f", "g"), h, 200, say("DELETED 1", `{"deleted":1}`))
			s.want("POST", batch+"?action=release&claim="+claim, "", h, 200, say("RELEASED 1", `{"released":1}`))
			s.do("POST", batch+"?action=claim&count=10000&lease=12h", "", h)
			none := s.want("POST", batch+"?action=claim&count=1&lease=1s", "", h, 200, say("", `{"listentries":[]}`))
			if _, ok := none.Header["X-Iidy-Claim"]; ok {
				t.Error("an empty claim has a header")
			}
		})
	}
}

// The Content-Type decides how a body is read, Accept how it is answered.
func TestFormats(t *testing.T) {
	t.Parallel()
	s := onDatabase(t)
	for i, tc := range []struct {
		kind, accept, body string
		json               bool
	}{
		{"", "", "%s", false},
		{"application/x-www-form-urlencoded", "", "%s", false},
		{"application/json", "", `{"items":["%s"]}`, true},
		{"application/json; charset=utf-8", "*/*", `{"items":["%s"]}`, true},
		{"Application/JSON;charset=utf-8", "text/html, */*;q=0.1", `{"items":["%s"]}`, true},
		{"application/json", "text/plain", `{"items":["%s"]}`, false},
		{"text/plain", "application/json, text/plain, */*", "%s", true},
		{"text/plain", "text/plain;q=0.5, application/json;q=0.9", "%s", true},
		{"application/json", "application/json;q=0.1, text/plain", `{"items":["%s"]}`, false},
		{"application/json", "text/plain;q=0", `{"items":["%s"]}`, true},
	} {
		item := "item-" + strconv.Itoa(i)
		h := header{"Content-Type", tc.kind, "Accept", tc.accept}
		a := s.do("POST", batch, strings.ReplaceAll(tc.body, "%s", item), h)
		want, kind := "ADDED 1\n", "text/plain; charset=utf-8"
		if tc.json {
			want, kind = `{"added":1}`+"\n", "application/json"
		}
		if a.Status != 201 || a.Body != want || a.Header.Get("Content-Type") != kind {
			t.Errorf("%+v: %d %q %q", tc, a.Status, a.Header.Get("Content-Type"), a.Body)
		}
		s.want("GET", items+"/"+item, "", plain, 200, "0")
	}
}

// What a text may look like. A form is read as lines, too.
func TestLines(t *testing.T) {
	t.Parallel()
	form := header{"Content-Type", "application/x-www-form-urlencoded"}
	long := strings.Repeat("x", 2000-len("downloads"))
	s := onDatabase(t)
	for body, want := range map[string][]string{
		"a\nb\nc":                   {"a", "b", "c"},
		"\n\na\n\n\nb\n":            {"a", "b"},
		"a\r\nb\r\n\r\n":            {"a", "b"},
		"b\r\r\n\r":                 {"b"},
		" a \n\tb\t\n  \n":          {"\tb\t", "  ", " a "},
		"ä\n🦀\nb b":                 {"b b", "ä", "🦀"},
		long + "\r\n" + "a\n":       {"a", long},
		"\n":                        nil,
		"\ufeffa\n\ufeffb\nc\ufeff": {"a", "c\ufeff", "\ufeffb"}, // the mark of Windows, at the start alone
		"\ufeff":                    nil,
		"action=increment\na=b&c":   {"a=b&c", "action=increment"},
	} {
		s.want("POST", batch, body, form, 201, "ADDED "+strconv.Itoa(len(want)))
		var lines []string
		for _, item := range want {
			lines = append(lines, item+" 0")
		}
		s.want("GET", batch+"?count=100", "", plain, 200, strings.Join(lines, "\n"))
		if len(want) > 0 {
			s.want("DELETE", batch, body, form, 200, "DELETED "+strconv.Itoa(len(want)))
		}
	}
	s.want("POST", batch, "", plain, 201, "ADDED 0")
}

// Items and lists make the round trip through a path, byte by byte.
func TestPaths(t *testing.T) {
	t.Parallel()
	s := onDatabase(t)
	const list = "%2E%2E"
	var all []string
	for _, item := range []string{
		"a/b", "100%", "a+b", "..", ".", ";", "🦀", "//", " ", "?", "#", "%2F", "é", "e\u0301", "a b 7", "\u0001",
	} {
		path := "/iidy/v1/lists/" + list + "/" + strings.ReplaceAll(url.PathEscape(item), ".", "%2E")
		s.want("POST", path, "", plain, 201, "ADDED 1")
		s.want("POST", path+"?action=increment", "", plain, 200, "INCREMENTED 1")
		s.want("GET", path, "", plain, 200, "1")
		all = append(all, item)
	}
	slices.Sort(all)
	var got []string
	next := "/iidy/v1/batch/lists/" + list + "?count=1"
	for next != "" {
		a := s.do("GET", next, "", plain.accept("application/json"))
		var page struct {
			Entries []struct{ Item string } `json:"listentries"`
		}
		if err := json.Unmarshal([]byte(a.Body), &page); err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Entries {
			got = append(got, e.Item)
			// The header is left out for an item that it cannot carry exactly.
			if last, ok := a.Header["X-Iidy-Last-Item"]; ok != (e.Item != " " && e.Item != "\u0001") || ok && last[0] != e.Item {
				t.Errorf("%q: X-IIDY-Last-Item %q", e.Item, last)
			}
		}
		next, _, _ = strings.Cut(strings.TrimPrefix(a.Header.Get("Link"), "<"), ">")
		if strings.Contains(next, "/..") {
			t.Errorf("clients take %s for another path", next)
		}
	}
	if !slices.Equal(got, all) {
		t.Errorf("followed the links to %q, want %q", got, all)
	}
}

// No item's name is taken by a literal of another route.
func TestRoutes(t *testing.T) {
	t.Parallel()
	e := echo.New()
	httpapi.Register(e, attempt.NewService(nil, nil), httpserver.Allowance{}, nil)
	for _, a := range e.Routes() {
		for _, b := range e.Routes() {
			as, bs := strings.Split(a.Path, "/"), strings.Split(b.Path, "/")
			for i := 0; len(as) == len(bs) && i < len(as); i++ {
				if strings.HasPrefix(as[i], ":") && !strings.HasPrefix(bs[i], ":") {
					t.Errorf("%s takes the %s %q of %s", b.Path, as[i][1:], bs[i], a.Path)
				}
				if as[i] != bs[i] {
					break
				}
			}
		}
	}
}

// sink is a repository that takes every batch.
type sink struct{ attempt.Repository }

func (sink) ApplyBatch(
	context.Context, attempt.Change, attempt.List, attempt.Batch, attempt.Claim,
) (int64, error) {
	return 0, nil
}

func FuzzLines(f *testing.F) {
	for _, body := range []string{"", "a\nb", "a\r\n\r\n", "\x00", "\xff", "a\rb", strings.Repeat("x", 2100)} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		if a := newServer(t, sink{}, 0).do("POST", batch, body, plain); a.Status != 201 && a.Status != 400 {
			t.Errorf("%q: %s", body, a)
		}
	})
}
