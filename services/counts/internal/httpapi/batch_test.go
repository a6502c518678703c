package httpapi_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/services/counts/internal/counting"
	"github.com/rowlock/rowlock/services/counts/internal/counting/countingtest"
)

func TestBatch(t *testing.T) {
	t.Parallel()
	s := newServer(t, countingtest.NewMemory())
	s.Want("POST", internal, `{"itemId":"a"}`, 201, "")
	s.Want("POST", internal, `{"itemId":"b","initialValue":10}`, 201, "")
	s.Want("POST", batch, `{"changes":[{"itemId":"a","amount":2},{"amount":-1,"itemId":"b"},{"itemId":"a","amount":-5}]}`,
		200, `{"values":[{"itemId":"a","value":2},{"itemId":"b","value":9},{"itemId":"a","value":-3}]}`)
	s.Want("POST", batch, `{"changes":[{"itemId":"a","amount":9223372036854775807},{"itemId":"b","amount":1}]}`, 200, "")

	const missing = `{"changes":[{"itemId":"b","amount":1},{"itemId":"é/\u0022","amount":1},{"itemId":"b","amount":1}]}`
	s.WantProblem("POST", batch, missing, 404, "COUNT_NOT_FOUND", "changes[1].itemId")
	s.WantProblem("POST", batch+"?create=false", missing, 404, "COUNT_NOT_FOUND", "changes[1].itemId")
	s.WantProblem("POST", batch, `{"changes":[{"itemId":"b","amount":1},{"itemId":"a","amount":9223372036854775807}]}`,
		422, "COUNT_OVERFLOW", "changes[1].itemId")
	s.WantProblem("POST", batch, `{"changes":[{"itemId":"absent","amount":1}]}`, 404, "COUNT_NOT_FOUND",
		"changes[0].itemId")
	s.WantProblem("POST", batch, `{"changes":[{"itemId":"a","amount":9223372036854775807}]}`, 422, "COUNT_OVERFLOW",
		"changes[0].itemId")
	s.Want("POST", external+"b/increase", "", 200, `{"itemId":"b","value":11}`)
	s.Want("POST", batch+"?create=true", missing, 200,
		`{"values":[{"itemId":"b","value":12},{"itemId":"é/\"","value":1},{"itemId":"b","value":13}]}`)
}

// As many changes as there may be fit into a body of MAX_BODY with the longest ids and amounts, and with ids of 80
// characters that are all escaped.
func TestLongestBatch(t *testing.T) {
	t.Parallel()
	for name, prefix := range map[string]struct{ sent, answered string }{
		"UTF-8":   {strings.Repeat("x", counting.MaxItemIDBytes-3), strings.Repeat("x", counting.MaxItemIDBytes-3)},
		"escaped": {strings.Repeat(`\u00e9`, 79), strings.Repeat("é", 79)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, countingtest.NewMemory())
			var changes, values []string
			for i := range counting.MaxChanges {
				changes = append(changes, fmt.Sprintf(`{"itemId":"%s%03d","amount":-9223372036854775807}`, prefix.sent, i))
				values = append(values, fmt.Sprintf(`{"itemId":"%s%03d","value":-9223372036854775807}`, prefix.answered, i))
			}
			s.Want("POST", batch+"?create=true", `{"changes":[`+strings.Join(changes, ",")+`]}`, 200,
				`{"values":[`+strings.Join(values, ",")+`]}`)
		})
	}
}

// Bad values name the change and its member. platform/strictjson tests what JSON a number or a text may be.
func TestBadBatches(t *testing.T) {
	t.Parallel()
	s := newServer(t, countingtest.NewMemory())
	s.Want("POST", internal, `{"itemId":"a"}`, 201, "")
	one := func(change string) string { return `{"changes":[{"itemId":"a","amount":1},` + change + `]}` }
	for body, field := range map[string]string{
		`{}`: "changes", `{"changes":[]}`: "changes", `{"changes":null}`: "changes", `{"changes":{}}`: "changes",
		`{"changes":"a"}`: "changes", `{"other":1}`: "other", `{"Changes":[]}`: "Changes",
		`{"changes":[{"itemId":"a","amount":1}],"changes":[{"itemId":"a","amount":1}]}`: "changes",
		`{"changes":[{"itemId":"a","amount":1}],"create":true}`:                         "create",

		one(`{}`): "changes[1].itemId", one(`{"itemId":"a"}`): "changes[1].amount", one(`{"amount":1}`): "changes[1].itemId",
		one(`null`): "changes[1]", one(`1`): "changes[1]", one(`[]`): "changes[1]",
		one(`{"itemId":"a","amount":1,"itemId":"b"}`):                   "changes[1].itemId",
		one(`{"itemId":"a","amount":1,"other":1}`):                      "changes[1].other",
		one(`{"itemId":"a","amount":0}`):                                "changes[1].amount",
		one(`{"itemId":"a","amount":-9223372036854775808}`):             "changes[1].amount",
		one(`{"itemId":"","amount":1}`):                                 "changes[1].itemId",
		one(`{"itemId":"\u0000","amount":1}`):                           "changes[1].itemId",
		one(`{"itemId":"` + strings.Repeat("x", 256) + `","amount":1}`): "changes[1].itemId",

		`{"changes":[` + strings.Repeat(`{"itemId":"a","amount":1},`, 1000) + `{"itemId":"a","amount":1}]}`: "changes",
	} {
		s.WantProblem("POST", batch, body, 400, "INVALID_FIELD", field)
	}
	for _, body := range []string{
		"", "[]", `{"changes":[`, one(`{"itemId":"a","amount":1}`) + "x", one("{\"itemId\":\"\xff\",\"amount\":1}"),
		one(`{"itemId":"\ud800","amount":1}`), `[{"itemId":"a","amount":1}]`,
		`{"changes":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`,
	} {
		s.WantProblem("POST", batch, body, 400, "INVALID_JSON", "")
	}
	good := `{"changes":[{"itemId":"a","amount":1}]}`
	for _, query := range []string{
		"create=yes", "create=2", "create=", "create=1", "create=0", "create=t", "create=T", "create=True", "create=FALSE",
		"create=%20true", "create=true&create=false", "create=true&create=true", "%zz",
	} {
		s.WantProblem("POST", batch+"?"+query, good, 400, "INVALID_FIELD", "create")
	}
	s.WantProblem("POST", batch, good+strings.Repeat(" ", 512<<10), 413, "BODY_TOO_LARGE", "")
	s.WantProblem("POST", batch, good, 415, "UNSUPPORTED_MEDIA_TYPE", "", "Content-Type", "text/plain")
	s.WantProblem("PUT", batch, good, 405, "METHOD_NOT_ALLOWED", "")
	s.Want("POST", external+"a/increase", "", 200, `{"itemId":"a","value":1}`) // nothing was applied
}
