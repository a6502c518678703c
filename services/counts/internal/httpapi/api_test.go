package httpapi_test

import (
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/rowlock/rowlock/platform/httpserver"
	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/services/counts/api"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
	"github.com/rowlock/rowlock/services/counts/internal/counting/countingtest"
	"github.com/rowlock/rowlock/services/counts/internal/httpapi"
)

func newServer(t testing.TB, repo counting.CountValueRepository) *apptest.API {
	t.Helper()
	deps := httpserver.Deps{Errors: []func(error) *problem.Error{httpapi.ProblemOf}}
	return apptest.NewAPI(t, api.OpenAPI, 512<<10, deps, func(e *echo.Echo) {
		none := func() {}
		httpapi.Register(e, e, &counting.Service{Repository: repo, Replayed: none, Conflict: none}, nil)
	})
}

const (
	batch    = "/api/v1/counts"
	external = batch + "/"
	internal = "/api/v1/internal/counts"
)

func TestLifeOfACount(t *testing.T) {
	t.Parallel()
	s := newServer(t, countingtest.NewMemory())
	created := s.Do("POST", internal, `{"itemId":"a b/c","initialValue":5}`)
	if created.Status != 201 || created.Header.Get("Location") != internal+"/a%20b%2Fc" {
		t.Errorf("created: %+v", created)
	}
	s.Want("GET", created.Header.Get("Location"), "", 200, "")
	s.WantProblem("POST", internal, `{"itemId":"a b/c"}`, 409, "COUNT_EXISTS", "itemId")
	s.Want("POST", external+"a%20b%2Fc/increase", "", 200, `{"itemId":"a b/c","value":6}`)
	s.Want("POST", external+"a%20b%2Fc/increase", "{}", 200, `{"itemId":"a b/c","value":7}`)
	s.Want("POST", external+"a%20b%2Fc/increase", `{"amount":10}`, 200, `{"itemId":"a b/c","value":17}`)
	s.Want("POST", external+"a%20b%2Fc/decrease", `{"amount":20}`, 200, `{"itemId":"a b/c","value":-3}`)
	s.Want("POST", external+"a%20b%2Fc/reset", "", 200, `{"itemId":"a b/c","value":0}`)
	s.Want("PUT", internal+"/a%20b%2Fc", `{"value":-9223372036854775808}`, 200, "")
	s.WantProblem("POST", external+"a%20b%2Fc/decrease", "", 422, "COUNT_OVERFLOW", "amount")
	s.Want("DELETE", internal+"/a%20b%2Fc", "", 204, "")
	for _, call := range [][2]string{
		{"POST", external + "a%20b%2Fc/increase"},
		{"POST", external + "a%20b%2Fc/decrease"},
		{"POST", external + "a%20b%2Fc/reset"},
		{"GET", internal + "/a%20b%2Fc"},
		{"DELETE", internal + "/a%20b%2Fc"},
	} {
		s.WantProblem(call[0], call[1], "", 404, "COUNT_NOT_FOUND", "itemId")
	}
	s.WantProblem("PUT", internal+"/a%20b%2Fc", `{"value":1}`, 404, "COUNT_NOT_FOUND", "itemId")
}

func TestReadSeveral(t *testing.T) {
	t.Parallel()
	s := newServer(t, countingtest.NewMemory())
	for _, id := range []string{"a", "b", "c,d"} {
		s.Want("POST", internal, `{"itemId":"`+id+`"}`, 201, "")
	}
	for query, want := range map[string][]string{
		"itemIds=b&itemIds=a":                           {"b", "a"},
		"itemIds[]=b&itemIds=a&itemIds%5B%5D=c,d":       {"b", "a", "c,d"},
		"other=x&itemIds=a":                             {"a"},
		"itemIds[]=a&itemIds[]=b":                       {"a", "b"},
		"itemIds%5B%5D=a":                               {"a"},
		"itemIds=a&itemIds=a&itemIds=ghost":             {"a"},
		"itemIds=c,d":                                   {"c,d"},
		"itemIds=ghost":                                 {},
		strings.Repeat("itemIds=a&", 499) + "itemIds=b": {"a", "b"},
	} {
		a := s.Do("GET", internal+"?"+query, "")
		var list []struct {
			ItemID string `json:"itemId"`
		}
		if err := json.Unmarshal([]byte(a.Body), &list); err != nil || a.Status != 200 || list == nil {
			t.Errorf("%.60s: %d %s", query, a.Status, a.Body)
		}
		got := []string{}
		for _, v := range list {
			got = append(got, v.ItemID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%.60s: %v, want %v", query, got, want)
		}
	}
	for _, query := range []string{
		"", "itemIds=", "itemIds=%00", "other=a", strings.Repeat("itemIds=a&", 501), "itemIds=%zz", "itemIds=a;itemIds=b",
	} {
		s.WantProblem("GET", internal+"?"+query, "", 400, "INVALID_FIELD", "itemIds")
	}
}

func TestBadChanges(t *testing.T) {
	t.Parallel()
	s := newServer(t, countingtest.NewMemory())
	s.Want("POST", internal, `{"itemId":"a","initialValue":7}`, 201, "")
	for _, op := range []string{"increase", "decrease"} {
		for body, field := range map[string]string{
			`{"amount":0}`: "amount", `{"amount":-1}`: "amount", `{"amount":1.5}`: "amount", `{"other":1}`: "other",
		} {
			s.WantProblem("POST", external+"a/"+op, body, 400, "INVALID_FIELD", field)
		}
		s.WantProblem("POST", external+"a/"+op, `{"amount":1}{}`, 400, "INVALID_JSON", "")
	}
	s.WantProblem("POST", external+"a/reset", `{"amount":1}`, 400, "INVALID_FIELD", "amount")
	s.WantProblem("POST", external+"a/reset", "junk", 400, "INVALID_JSON", "")
	s.Want("POST", external+"a/increase", "", 200, `{"itemId":"a","value":8}`)
	s.Want("POST", external+"a/reset", "{}", 200, "")
}

func TestBadIDs(t *testing.T) {
	t.Parallel()
	s := newServer(t, countingtest.NewMemory())
	for _, id := range []string{"%00", "%ff", "%0A", strings.Repeat("x", 256), "%7f", "%C2%85"} {
		s.WantProblem("POST", external+id+"/increase", "", 400, "INVALID_FIELD", "itemId")
		s.WantProblem("POST", external+id+"/reset", "", 400, "INVALID_FIELD", "itemId")
		s.WantProblem("GET", internal+"/"+id, "", 400, "INVALID_FIELD", "itemId")
		s.WantProblem("PUT", internal+"/"+id, `{"value":1}`, 400, "INVALID_FIELD", "itemId")
		s.WantProblem("DELETE", internal+"/"+id, "", 400, "INVALID_FIELD", "itemId")
	}
	for body, field := range map[string]string{
		`{}`: "itemId", `{"itemId":""}`: "itemId", `{"itemId":"\u0000"}`: "itemId",
		`{"itemId":"a","initialValue":1.5}`: "initialValue", `{"itemId":"a","extra":1}`: "extra",
	} {
		s.WantProblem("POST", internal, body, 400, "INVALID_FIELD", field)
	}
	s.WantProblem("PUT", internal+"/a", `{}`, 400, "INVALID_FIELD", "value")
	s.WantProblem("POST", internal, "", 400, "INVALID_JSON", "")
}

// Every sentinel of the domain has its row, and other errors have none.
func TestEverySentinelIsMapped(t *testing.T) {
	t.Parallel()
	for sentinel, status := range map[error]int{
		counting.ErrInvalidItemID: 400, counting.ErrInvalidAmount: 400, counting.ErrTooManyItems: 400,
		counting.ErrTooManyChanges: 400, counting.ErrInvalidLimit: 400,
		counting.ErrNotFound: 404, counting.ErrExists: 409, counting.ErrKeyConflict: 409, counting.ErrOverflow: 422,
	} {
		p := httpapi.ProblemOf(errors.Join(errors.New("wrapped"), sentinel))
		if p == nil || p.Kind().Status() != status || p.Field() == "" || p.Detail() == "" {
			t.Errorf("%v: %+v", sentinel, p)
		}
	}
	p := httpapi.ProblemOf(counting.ErrNotSupported) // no part of the request is at fault
	if p == nil || p.Kind().Status() != 501 || p.Kind().Code() != "NOT_SUPPORTED" || p.Detail() == "" {
		t.Errorf("%v: %+v", counting.ErrNotSupported, p)
	}
	if p := httpapi.ProblemOf(errors.New("unknown")); p != nil {
		t.Errorf("an unknown error became %v", p)
	}
}

// No operation answers 2xx when the repository fails, and nothing of the failure leaks.
func TestFailingRepository(t *testing.T) {
	t.Parallel()
	repo := countingtest.NewMemory()
	repo.Err = errors.New("secret host db-7 is down")
	s := newServer(t, repo)
	for _, call := range [][3]string{
		{"POST", external + "a/increase", ""},
		{"POST", external + "a/reset", ""},
		{"POST", batch, `{"changes":[{"itemId":"a","amount":1}]}`},
		{"POST", internal, `{"itemId":"a"}`},
		{"GET", internal + "?itemIds=a", ""},
		{"GET", internal + "?prefix=a", ""},
		{"GET", internal + "/a", ""},
		{"PUT", internal + "/a", `{"value":1}`},
		{"DELETE", internal + "/a", ""},
	} {
		if a := s.WantProblem(call[0], call[1], call[2], 500, "INTERNAL", ""); strings.Contains(a.Body, "secret host") {
			t.Errorf("%v: %s", call, a)
		}
	}
}

// Ids that mean something else in a path make the round trip, through Location too.
func FuzzItemIDRoundTrip(f *testing.F) {
	for _, id := range []string{
		"a", ".", "..", "...", "a/b", "100%", "a+b", ";", "//", "🦀", " ", "?", "#", "%2F", "\x00", "\xff",
	} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		s := newServer(t, countingtest.NewMemory())
		body, err := json.Marshal(map[string]string{"itemId": id})
		if err != nil {
			t.Skip()
		}
		created := s.Do("POST", internal, string(body))
		if _, invalid := counting.NewItemID(id); invalid != nil {
			return // a replaced character may have made it valid; the path is what counts
		}
		if created.Status != 201 {
			t.Fatalf("%q: %s", id, created)
		}
		increase := external + strings.ReplaceAll(url.PathEscape(id), ".", "%2E") + "/increase"
		for path, method := range map[string]string{created.Header.Get("Location"): "GET", increase: "POST"} {
			var got struct {
				ItemID string `json:"itemId"`
			}
			a := s.Do(method, path, "")
			if err := json.Unmarshal([]byte(a.Body), &got); err != nil || a.Status != 200 || got.ItemID != id {
				t.Fatalf("%q is at %s: %s", id, path, a)
			}
		}
	})
}
