package httpapi

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

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

// query parses the parameters of a request's query; a body is never parsed as a form. Its methods keep the first
// error, which end returns.
type query struct {
	values url.Values // those that have not been taken
	err    error
}

// readQuery refuses parameters that are repeated.
func readQuery(r *http.Request) *query {
	if r.URL.RawQuery == "" {
		return new(query)
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return &query{err: problem.InvalidField.New("The query is not well formed.", problem.Cause(err))}
	}
	q := &query{values: values}
	for name, all := range values {
		if len(all) > 1 {
			q.fail(badParam(name, "is there twice"))
		}
	}
	return q
}

// fail keeps an error unless there is one.
func (q *query) fail(err error) {
	if q.err == nil {
		q.err = err
	}
}

// end returns the first error. A parameter that was not taken is one: a misspelt claim or min_attempts would
// otherwise change more than was meant.
func (q *query) end() error {
	for name := range q.values {
		q.fail(badParam(name, "means nothing here"))
	}
	return q.err
}

func (q *query) has(name string) bool { return q.values.Has(name) }

// take returns a parameter that may be left out.
func (q *query) take(name string) (value string, given bool) {
	value, given = q.values.Get(name), q.values.Has(name)
	q.values.Del(name)
	return value, given
}

// require returns a parameter that must be given.
func (q *query) require(name string) string {
	value, given := q.take(name)
	if !given {
		q.fail(badParam(name, "is missing"))
	}
	return value
}

// badParam returns the error of a parameter. A name that is not the contract's is not repeated.
func badParam(name, what string) *problem.Error {
	known := []string{paramAction, paramClaim, paramCount, paramLease, paramAfter, paramMinAttempts}
	if !slices.Contains(known, name) {
		return problem.InvalidField.New("A parameter of the query " + what + "; known are " + strings.Join(known, ", ") + ".")
	}
	return problem.InvalidField.New("The parameter "+name+" "+what+".", problem.Field(name))
}

// claim returns the parameter claim, and no claim without it. An empty value, such as that of an unset variable of
// a shell, is an error: it was meant to limit the change.
func (q *query) claim() attempt.Claim {
	value, given := q.take(paramClaim)
	if !given {
		return ""
	}
	claim, err := attempt.ParseClaim(value)
	if err != nil {
		q.fail(err)
	}
	return claim
}

// claimOf returns the claim that limits a change, which nothing follows; items are added under none.
func (q *query) claimOf(change attempt.Change) (claim attempt.Claim, err error) {
	if change != attempt.Add {
		claim = q.claim()
	}
	return claim, q.end()
}

// number returns a required parameter that consists of digits.
func (q *query) number(name string) int64 {
	n, err := strconv.ParseUint(q.require(name), 10, 63)
	if err != nil {
		q.fail(badParam(name, "must be a whole number in digits"))
	}
	return int64(n)
}

// count returns the parameter count; a value above MaxPage may be returned as another one above it.
func (q *query) count() int { return int(min(q.number(paramCount), attempt.MaxPage+1)) }

// lease returns the parameter lease.
func (q *query) lease() time.Duration {
	lease, err := time.ParseDuration(q.require(paramLease))
	if err != nil {
		q.fail(badParam(paramLease, "must be a duration such as 60s or 1h30m"))
	}
	return lease
}
