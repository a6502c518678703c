package httpapi_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt/attempttest"
	"github.com/rowlock/rowlock/services/iidy/internal/httpapi"
)

// One bad item fails the batch whole, and the sentence says which.
func TestBadItems(t *testing.T) {
	t.Parallel()
	s := onDatabase(t)
	long, endless := strings.Repeat("x", 2001-len("downloads")), strings.Repeat("y", 300_000)
	for _, change := range []struct{ method, path string }{
		{"POST", batch}, {"POST", batch + "?action=increment"}, {"POST", "/iidy/v1/increment/batch/lists/downloads"}, {"DELETE", batch},
	} {
		for body, want := range map[string][2]string{
			"a\n\n" + long + "\nb": {"ITEM_TOO_LONG", "line 3"},
			"a\r\n" + endless:      {"ITEM_TOO_LONG", "line 2"},
			"a\nb\nc\rd\n":         {"INVALID_FIELD", "line 3"},
		} {
			s.refused(change.method, change.path, body, plain, 400, want[0], want[1])
		}
		for body, want := range map[string][2]string{
			`{"items":["a","` + long + `"]}`:    {"ITEM_TOO_LONG", "items[1]"},
			`{"items":["a","` + endless + `"]}`: {"ITEM_TOO_LONG", "items[1]"},
			`{"items":["a",""]}`:                {"INVALID_FIELD", "items[1]"},
			`{"items":["a",7]}`:                 {"INVALID_FIELD", "items[1]"},
			`{"items":["a"],"more":1}`:          {"INVALID_FIELD", "more"},
			`{}`:                                {"INVALID_FIELD", "items"},
			`{"items":["a"]`:                    {"INVALID_JSON", ""},
			``:                                  {"INVALID_JSON", ""},
		} {
			if body != "" || change.method == "POST" {
				s.refused(change.method, change.path, body, inJSON, 400, want[0], want[1])
			}
		}
	}
	for _, item := range []string{"%00", "%ff", "%0A", "%0D", strings.Repeat("x", 1992)} {
		code := "INVALID_FIELD"
		if len(item) > 3 {
			code = "ITEM_TOO_LONG"
		}
		for _, method := range []string{"GET", "POST", "DELETE"} {
			s.refused(method, items+"/"+item, "", plain, 400, code, "item")
		}
	}
	for _, path := range []string{"/iidy/v1/batch/lists/%00?count=1", "/iidy/v1/lists/%0A", "/iidy/v1/lists/%ff/a"} {
		s.refused("GET", path, "", plain, 400, "INVALID_FIELD", "list")
	}
	if a := s.do("HEAD", items, "", plain); a.Status != 404 {
		t.Error("something was added")
	}
}

// Parameters that are missing, misspelt, doubled or out of bounds change nothing.
func TestBadParameters(t *testing.T) {
	t.Parallel()
	s := onDatabase(t)
	s.want("POST", batch, "a\nb", plain, 201, "ADDED 2")
	for path, field := range map[string]string{
		batch: "count", batch + "?count=": "count", batch + "?count=-1": "count", batch + "?count=1e3": "count", batch + "?count=10001": "count",
		batch + "?count=99999999999999999999": "count", batch + "?count=1&count=2": "count", batch + "?count=1&lease=1s": "lease",
		batch + "?count=1&other=1": "", batch + "?count=1;a=b": "", batch + "?count=%zz": "",
		batch + "?count=1&after_id=%00": "after_id", batch + "?count=1&after_id=%ff": "after_id",
	} {
		s.refused("GET", path, "", plain, 400, "INVALID_FIELD", field)
	}
	for query, field := range map[string]string{
		"action=": "action", "action=add": "action",
		"action=INCREMENT": "action", "action=increment&action=increment": "action", "claim=" + claim: "claim",
		"action=increment&claim=": "claim", "action=increment&claim=x": "claim", "action=increment&count=1": "count",
		"action=claim&lease=60s": "count", "action=claim&count=0&lease=60s": "count", "action=claim&count=10001&lease=60s": "count",
		"action=claim&count=1": "lease", "action=claim&count=1&lease=60": "lease", "action=claim&count=1&lease=0s": "lease",
		"action=claim&count=1&lease=13h": "lease", "action=claim&count=1&lease=1s&claim=" + claim: "claim",
		"action=extend&lease=1s": "claim", "action=extend&claim=" + claim: "lease", "action=extend&lease=1ms&claim=" + claim: "lease",
		"action=release": "claim", "action=release&claim=nonsense": "claim", "min_attempts=1": "min_attempts", "clam=x": "",
		"action=extend&count=1&lease=1s&claim=" + claim: "count", "action=release&count=1&claim=" + claim: "count",
	} {
		s.refused("POST", batch+"?"+query, "a", plain, 400, "INVALID_FIELD", field)
	}
	for query, field := range map[string]string{
		"action=claim": "action", "action=increment&claim=x": "claim", "count=1": "count", "claim=" + claim: "claim",
	} {
		s.refused("POST", items+"/a?"+query, "", plain, 400, "INVALID_FIELD", field)
	}
	for _, path := range []string{items + "/a?bogus=1", items + "?bogus=1"} {
		s.refused("GET", path, "", plain, 400, "INVALID_FIELD", "")
	}
	s.refused("POST", items+"/a?action=", "", plain, 400, "INVALID_FIELD", "action")
	s.refused("POST", "/iidy/v1/increment/lists/downloads/a?action=increment", "", plain, 400, "INVALID_FIELD", "action")
	s.refused("POST", "/iidy/v1/increment/batch/lists/downloads?clam="+claim, "a", plain, 400, "INVALID_FIELD", "")
	for query, field := range map[string]string{
		"": "min_attempts", "min_attempts=0": "min_attempts", "min_attempts=x": "min_attempts", "min_attempts=": "min_attempts",
		"claim=" + claim: "min_attempts", "min_attempts=1&clam=x": "", "min_attempts=1&count=1": "count", "min_attempts=1&claim=": "claim",
	} {
		s.refused("DELETE", batch+"?"+query, "", plain, 400, "INVALID_FIELD", field)
	}
	s.refused("DELETE", batch+"?min_attempts=1", "a", plain, 400, "INVALID_FIELD", "min_attempts")
	s.refused("DELETE", batch+"?claim=", "a", plain, 400, "INVALID_FIELD", "claim")
	s.refused("DELETE", items+"/a?claim=", "", plain, 400, "INVALID_FIELD", "claim")
	s.want("GET", batch+"?count=9", "", plain, 200, "a 0\nb 0")
}

// What the server itself refuses has the format of the service's own.
func TestServersOwnErrors(t *testing.T) {
	t.Parallel()
	s := newServer(t, attempttest.Failing{}, 100)
	s.refused("GET", "/nothing", "", plain, 404, "NOT_FOUND", "")
	s.refused("GET", "/iidy/v1/lists/downloads/a/b", "", inJSON, 404, "NOT_FOUND", "")
	s.refused("PUT", batch, "a", plain, 405, "METHOD_NOT_ALLOWED", "")
	s.refused("POST", batch, strings.Repeat("a\n", 51), plain, 413, "BODY_TOO_LARGE", "")
	s.refused("POST", batch, `{"items":["`+strings.Repeat("a", 100)+`"]}`, inJSON, 413, "BODY_TOO_LARGE", "")
	for _, h := range []header{plain, inJSON} {
		s.refused("POST", batch, "a", append(header{"Content-Encoding", "gzip"}, h...), 415, "UNSUPPORTED_MEDIA_TYPE", "")
	}
	if a := s.do("PUT", batch, "a", plain); !strings.Contains(a.Header.Get("Allow"), "POST") {
		t.Errorf("405 without Allow: %v", a.Header)
	}
}

// Every sentinel of the domain has its row, and what is not ours is not answered here.
func TestEverySentinelIsMapped(t *testing.T) {
	t.Parallel()
	for sentinel, status := range map[error]int{
		attempt.ErrInvalidList: 400, attempt.ErrInvalidItem: 400, attempt.ErrTooLong: 400, attempt.ErrInvalidClaim: 400,
		attempt.ErrInvalidCount: 400, attempt.ErrInvalidLease: 400, attempt.ErrInvalidAttempts: 400, attempt.ErrNotFound: 404,
		attempt.ErrBusy: 503, attempt.ErrConflict: 503, attempt.ErrInvalidPosition: 400,
	} {
		p := httpapi.ProblemOf(errors.Join(errors.New("wrapped"), sentinel))
		if p == nil || p.Kind().Status() != status || (status == 400) != (p.Field() != "") || p.Detail() == "" {
			t.Errorf("%v: %+v", sentinel, p)
		}
	}
	if p := httpapi.ProblemOf(errors.New("another error")); p != nil {
		t.Errorf("a foreign error became %v", p)
	}
}

// No call of a repository that fails is answered 2xx, and nothing of the failure leaks.
func TestFailingRepository(t *testing.T) {
	t.Parallel()
	s := newServer(t, attempttest.Failing{Err: errors.New("secret host db-7 is down")}, 64<<20)
	for _, call := range [][3]string{
		{"POST", items + "/a", ""}, {"GET", items + "/a", ""}, {"DELETE", items + "/a", ""}, {"GET", items, ""},
		{"POST", batch, "a"}, {"POST", batch, strings.Repeat("a\n", 10_002)}, {"GET", batch + "?count=1", ""},
		{"DELETE", batch, "a"}, {"DELETE", batch + "?min_attempts=1", ""},
		{"POST", batch + "?action=claim&count=1&lease=1s", ""}, {"POST", batch + "?action=release&claim=" + claim, ""},
		{"POST", batch + "?action=extend&lease=1s&claim=" + claim, ""},
	} {
		s.refused(call[0], call[1], call[2], plain, 500, "INTERNAL", "")
		if a := s.do(call[0], call[1], call[2], plain); strings.Contains(a.Body, "db-7") {
			t.Errorf("%v: %s", call, a)
		}
	}
	if a := s.do("HEAD", items, "", plain); a.Status != 500 {
		t.Errorf("HEAD: %s", a)
	}
}
