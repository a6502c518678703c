package httpapi

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
)

// The names of what can be at fault in a request.
const (
	fieldList        = "list"
	fieldItem        = "item"
	fieldItems       = "items"
	paramAction      = "action"
	paramClaim       = "claim"
	paramCount       = "count"
	paramLease       = "lease"
	paramAfter       = "after_id"
	paramMinAttempts = "min_attempts"
)

// The values of action. Without it items are added.
const (
	actionIncrement = "increment"
	actionClaim     = "claim"
	actionExtend    = "extend"
	actionRelease   = "release"
)

// query is what stands behind the question mark.
type query map[string]string

// readQuery reads the query. The body is never taken for a form. A parameter that
// is there twice is refused: nobody can say which was meant.
func readQuery(r *http.Request) (query, error) {
	if r.URL.RawQuery == "" {
		return nil, nil //nolint:nilnil // a nil map reads like an empty one
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, problem.InvalidField.New("The query is not well formed.", problem.Cause(err))
	}
	q := make(query, len(values))
	for name, all := range values {
		if len(all) > 1 {
			return nil, badParam(name, "is there twice")
		}
		q[name] = all[0]
	}
	return q, nil
}

// only refuses every parameter but these: a misspelt claim or min_attempts would
// otherwise change more than was meant.
func (q query) only(names ...string) error {
	for name := range q {
		if !slices.Contains(names, name) {
			return badParam(name, "means nothing here")
		}
	}
	return nil
}

// noQuery refuses a query where none means anything.
func noQuery(r *http.Request) error {
	q, err := readQuery(r)
	if err != nil {
		return err
	}
	return q.only()
}

// badParam blames a parameter. Its name is repeated only when it is one of ours.
func badParam(name, what string) *problem.Error {
	known := []string{paramAction, paramClaim, paramCount, paramLease, paramAfter, paramMinAttempts}
	if !slices.Contains(known, name) {
		return problem.InvalidField.New("A parameter of the query " + what + "; known are " + strings.Join(known, ", ") + ".")
	}
	return problem.InvalidField.New("The parameter "+name+" "+what+".", problem.Field(name))
}

// claim reads the parameter claim; without it there is none. One that is there but
// empty, such as a shell's unset variable, is refused: it was meant to protect.
func (q query) claim() (attempt.Claim, error) {
	value, ok := q[paramClaim]
	if !ok {
		return "", nil
	}
	return attempt.ParseClaim(value)
}

// wanted is claim for calls that need one.
func (q query) wantedClaim() (attempt.Claim, error) { return attempt.ParseClaim(q[paramClaim]) }

// number reads a parameter that must be there: digits alone.
func (q query) number(name string) (int64, error) {
	value, ok := q[name]
	if !ok {
		return 0, badParam(name, "is missing")
	}
	n, err := strconv.ParseUint(value, 10, 63)
	if err != nil {
		return 0, badParam(name, "must be a whole number in digits")
	}
	return int64(n), nil
}

// count reads the parameter count, up to what an int holds.
func (q query) count() (int, error) {
	n, err := q.number(paramCount)
	return int(min(n, attempt.MaxPage+1)), err
}

// lease reads the parameter lease, which must be there.
func (q query) lease() (time.Duration, error) {
	value, ok := q[paramLease]
	if !ok {
		return 0, badParam(paramLease, "is missing")
	}
	lease, err := time.ParseDuration(value)
	if err != nil {
		return 0, badParam(paramLease, "must be a duration such as 60s or 1h30m")
	}
	return lease, nil
}

// after reads the parameter after_id. It is a place, not an item that must exist.
func (q query) after() (string, error) {
	value := q[paramAfter]
	switch {
	case !utf8.ValidString(value):
		return "", badParam(paramAfter, "is not valid UTF-8")
	case strings.IndexByte(value, 0) >= 0:
		return "", badParam(paramAfter, "holds a NUL")
	}
	return value, nil
}
