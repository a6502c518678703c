package httpapi_test

import (
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/services/counts/internal/counting/countingtest"
)

// The links lead through all counts of the prefix, in byte order, whatever their ids hold.
func TestPages(t *testing.T) {
	t.Parallel()
	s := newServer(t, countingtest.NewMemory())
	ids := []string{"a", "a&b=c", "a b", "a+b", "a%zz", `a"><x`, "a\U0010ffff", "a/b", "a;b", "aé", "🦀", "b"}
	for _, id := range ids {
		body, err := json.Marshal(map[string]string{"itemId": id})
		if err != nil {
			t.Fatal(err)
		}
		s.Want("POST", internal, string(body), 201, "")
	}
	slices.Sort(ids)
	for _, prefix := range []string{"", "a", "a ", "a&", "a%", "🦀", "absent", "a\U0010ffff"} {
		want := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !strings.HasPrefix(id, prefix) })
		for _, limit := range []int{1, 2, 3, 1000} {
			var got []string
			for target := internal + "?prefix=" + url.QueryEscape(prefix) + "&limit=" + strconv.Itoa(limit); target != ""; {
				a := s.Do("GET", target, "")
				var page []struct {
					ItemID string `json:"itemId"`
				}
				err := json.Unmarshal([]byte(a.Body), &page)
				linkedToNothing := len(page) == 0 && len(got) > 0
				if err != nil || a.Status != 200 || page == nil || len(page) > limit || linkedToNothing {
					t.Fatalf("%s: %s", target, a)
				}
				for _, v := range page {
					got = append(got, v.ItemID)
				}
				target = nextOf(t, a.Header.Get("Link"))
			}
			if !slices.Equal(got, want) {
				t.Errorf("prefix %q by %d: %q, want %q", prefix, limit, got, want)
			}
		}
	}
}

// nextOf returns the target of a Link, "" without one.
func nextOf(t *testing.T, link string) string {
	t.Helper()
	if link == "" {
		return ""
	}
	target, found := strings.CutSuffix(strings.TrimPrefix(link, "<"), `>; rel="next"`)
	if !found || !strings.HasPrefix(target, internal+"?") || strings.ContainsAny(target, "<> \"") {
		t.Fatalf("the link is %s", link)
	}
	return target
}

func TestPageDefaults(t *testing.T) {
	t.Parallel()
	s := newServer(t, countingtest.NewMemory())
	var changes []string
	for i := range 101 {
		changes = append(changes, `{"itemId":"`+strconv.Itoa(1000+i)+`","amount":1}`)
	}
	s.Want("POST", batch+"?create=true", `{"changes":[`+strings.Join(changes, ",")+`]}`, 200, "")
	for query, n := range map[string]int{
		"prefix=": 100, "after=": 100, "prefix": 100, "limit=101": 101, "limit=1000": 101, "after=1050": 50, "limit=007": 7,
		"prefix=10&after=1050&limit=5": 5, "other=x&limit=1": 1, "prefix=10&after=2": 0, "prefix=109&after=1": 10,
	} {
		a := s.Do("GET", internal+"?"+query, "")
		var page []json.RawMessage
		if err := json.Unmarshal([]byte(a.Body), &page); err != nil || a.Status != 200 || len(page) != n {
			t.Errorf("%s: %d counts, want %d: %s", query, len(page), n, a)
		}
	}
}

func TestBadPages(t *testing.T) {
	t.Parallel()
	s := newServer(t, countingtest.NewMemory())
	for query, field := range map[string]string{
		"limit=0": "limit", "limit=1001": "limit", "limit=-1": "limit", "limit=%2B1": "limit", "limit=": "limit",
		"limit=1e2": "limit", "limit=1.0": "limit", "limit=x": "limit", "limit=99999999999999999999": "limit",
		"limit=1&limit=1": "limit", "prefix=a&prefix=a": "prefix", "after=a&after=": "after",
		"prefix=%00": "prefix", "prefix=%ff": "prefix", "prefix=%C3": "prefix", "prefix=a%0A": "prefix",
		"prefix=" + strings.Repeat("x", 256): "prefix",
		"after=%00":                          "after", "after=%ff": "after", "after=%7f": "after",
		"after=" + strings.Repeat("x", 256): "after",
		"itemIds=a&prefix=a":                "itemIds", "limit=1&itemIds[]=a": "itemIds", "after=&itemIds=a": "itemIds",
		"prefix=a;b": "prefix", "prefix=%zz": "prefix", "limit=1&after=%": "after", "limit=%": "limit",
		"itemIds=a;b": "itemIds", "itemIds[]=%zz": "itemIds", "%=a": "itemIds",
	} {
		s.WantProblem("GET", internal+"?"+query, "", 400, "INVALID_FIELD", field)
	}
}
