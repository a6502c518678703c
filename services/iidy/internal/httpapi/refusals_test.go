package httpapi_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
	"github.com/rowlock/rowlock/services/iidy/internal/httpapi"
)

// One bad item fails the batch whole, and the sentence says which.
func TestBadItems(t *testing.T) {
	t.Parallel()
	s := onDatabase(t)
	long, endless := strings.Repeat("x", 2001-len("downloads")), strings.Repeat("y", 300_000)
	for _, change := range []struct{ method, path string }{
		{"POST", batch}, {"POST", batch + "?action=increment"}, {"POST", incrementBatch}, {"DELETE", batch},
	} {
		for body, want := range map[string][2]string{
			"a\n\n" + long + "\nb": {"ITEM_TOO_LONG", "line 3"},
			"a\r\n" + endless:      {"ITEM_TOO_LONG", "line 2"},
			"a\nb\nc\rd\n":         {"INVALID_FIELD", "line 3"},
			"\xff\xfea\x00\n\x00":  {"INVALID_FIELD", ""}, // UTF-16
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
	for item, code := range map[string]string{
		"%00": "INVALID_FIELD", "%ff": "INVALID_FIELD", "%0A": "INVALID_FIELD", "%0D": "INVALID_FIELD",
		strings.Repeat("x", 1992): "ITEM_TOO_LONG",
	} {
		for _, method := range []string{"GET", "POST", "DELETE"} {
			s.refused(method, items+"/"+item, "", plain, 400, code, "item")
		}
	}
	const bad = "/iidy/v1/batch/lists/%00"
	for _, call := range [][2]string{
		{"GET", bad + "?count=1"},
		{"GET", "/iidy/v1/lists/%0A"},
		{"GET", "/iidy/v1/lists/%ff/a"},
		{"POST", bad},
		{"POST", bad + "?action=claim&count=1&lease=1s"},
		{"POST", bad + "?action=release&claim=" + claim},
		{"POST", bad + "?action=extend&lease=1s&claim=" + claim},
		{"DELETE", bad + "?min_attempts=1"},
	} {
		s.refused(call[0], call[1], "", plain, 400, "INVALID_FIELD", "list")
	}
	if a := s.do("HEAD", items, "", plain); a.Status != 404 {
		t.Error("something was added")
	}
}

// Parameters that are missing, misspelt, repeated or out of bounds change nothing.
func TestBadParameters(t *testing.T) {
	t.Parallel()
	s := onDatabase(t)
	s.want("POST", batch, "a\nb", plain, 201, "ADDED 2")
	paths := strings.NewReplacer("BATCH", batch, "ITEM", items+"/a", "INC", "/iidy/v1/increment", "CLAIM", "claim="+claim)
	for call, field := range map[string]string{
		"GET BATCH": "count", "GET BATCH?count=": "count", "GET BATCH?count=-1": "count", "GET BATCH?count=1e3": "count",
		"GET BATCH?count=10001": "count", "GET BATCH?count=99999999999999999999": "count",
		"GET BATCH?count=1&count=2": "count", "GET BATCH?count=1&lease=1s": "lease", "GET BATCH?count=1&other=1": "",
		"POST BATCH?action=claim&count=10001&lease=60s": "count", "POST BATCH?action=claim&count=1&lease=999ms": "lease",
		"POST BATCH?action=extend&lease=0s&CLAIM": "lease", "GET BATCH?count=1;a=b": "",
		"GET BATCH?count=%zz": "", "GET BATCH?count=1&after_id=%00": "after_id",
		"GET BATCH?count=1&after_id=%ff": "after_id", "GET ITEM?bogus=1": "", "GET /iidy/v1/lists/l?bogus=1": "",
		"POST ITEM?action=": "action", "POST ITEM?action=claim": "action", "POST ITEM?action=increment&claim=x": "claim",
		"POST ITEM?count=1": "count", "POST ITEM?CLAIM": "claim", "POST INC/lists/l/a?action=increment": "action",
		"POST INC/batch/lists/l?clam=" + claim: "", "POST BATCH?action=": "action", "POST BATCH?action=add": "action",
		"POST BATCH?action=INCREMENT": "action", "POST BATCH?action=increment&action=increment": "action",
		"POST BATCH?CLAIM": "claim", "POST BATCH?min_attempts=1": "min_attempts", "POST BATCH?clam=x": "",
		"POST BATCH?action=increment&claim=": "claim", "POST BATCH?action=increment&count=1": "count",
		"POST BATCH?action=claim&lease=60s": "count", "POST BATCH?action=claim&count=0&lease=60s": "count",
		"POST BATCH?action=claim&count=1": "lease", "POST BATCH?action=claim&count=1&lease=60": "lease",
		"POST BATCH?action=claim&count=1&lease=13h": "lease", "POST BATCH?action=claim&count=1&lease=1s&CLAIM": "claim",
		"POST BATCH?action=delete":          "min_attempts",
		"POST BATCH?action=extend&lease=1s": "claim", "POST BATCH?action=extend&CLAIM": "lease",
		"POST BATCH?action=extend&count=1&lease=1s&CLAIM": "count", "POST BATCH?action=release": "claim",
		"POST BATCH?action=release&claim=nonsense": "claim", "POST BATCH?action=release&count=1&CLAIM": "count",
		"DELETE BATCH": "min_attempts", "DELETE BATCH?CLAIM": "min_attempts", "DELETE BATCH?min_attempts=": "min_attempts",
		"DELETE BATCH?min_attempts=0": "min_attempts", "DELETE BATCH?min_attempts=x": "min_attempts",
		"DELETE BATCH?min_attempts=1&clam=x": "", "DELETE BATCH?min_attempts=1&count=1": "count",
		"DELETE BATCH?min_attempts=1&claim=": "claim", "DELETE ITEM?claim=": "claim",
	} {
		method, path, _ := strings.Cut(call, " ")
		s.refused(method, paths.Replace(path), "", plain, 400, "INVALID_FIELD", field)
	}
	s.refused("DELETE", batch+"?min_attempts=1", "a", plain, 400, "INVALID_FIELD", "min_attempts")
	s.refused("DELETE", batch+"?claim=", "a", plain, 400, "INVALID_FIELD", "claim")
	s.want("GET", batch+"?count=9", "", plain, 200, "a 0\nb 0")
}

// The errors of the server have the formats of the service's own.
func TestServersOwnErrors(t *testing.T) {
	t.Parallel()
	s := newServer(t, nil, 100)
	s.refused("GET", "/nothing", "", plain, 404, "NOT_FOUND", "")
	s.refused("GET", items+"/a/b", "", inJSON, 404, "NOT_FOUND", "")
	s.refused("PUT", batch, "a", plain, 405, "METHOD_NOT_ALLOWED", "")
	for _, h := range []header{plain, inJSON} {
		s.refused("POST", batch, `{"items":["`+strings.Repeat("a", 100)+`"]}`, h, 413, "BODY_TOO_LARGE", "")
		s.refused("POST", batch, "a", append(header{"Content-Encoding", "gzip"}, h...), 415, "UNSUPPORTED_MEDIA_TYPE", "")
	}
}

// Every error of the domain has a problem, and other errors have none.
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
