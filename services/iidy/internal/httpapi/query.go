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

// The fields that a problem can name.
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

// query parses the parameters of a request's query; a body is never parsed as a form. Its methods keep the first
// error, which end returns.
type query struct {
	values url.Values // not yet taken
	err    error
}

// readQuery refuses parameters that are repeated.
func readQuery(r *http.Request) *query {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return &query{err: problem.InvalidField.New("The query is not well formed.", problem.Cause(err))}
	}
	q := &query{values: values}
	for name, all := range values {
		if len(all) > 1 {
			q.fail(badParam(name, "is given twice"))
		}
	}
	return q
}

// fail keeps an error unless there already is one.
func (q *query) fail(err error) {
	if q.err == nil {
		q.err = err
	}
}

// end returns the first error. A parameter that nothing took is an error: a misspelt claim or min_attempts would
// otherwise change more items than was meant.
func (q *query) end() error {
	for name := range q.values {
		q.fail(badParam(name, "has no meaning here"))
	}
	return q.err
}

// take returns an optional parameter.
func (q *query) take(name string) (value string, given bool) {
	value, given = q.values.Get(name), q.values.Has(name)
	q.values.Del(name)
	return value, given
}

// require returns a required parameter.
func (q *query) require(name string) string {
	value, given := q.take(name)
	if !given {
		q.fail(badParam(name, "is missing"))
	}
	return value
}

// badParam returns the error for a parameter. It repeats the name only if the contract has it.
func badParam(name, what string) *problem.Error {
	known := []string{paramAction, paramClaim, paramCount, paramLease, paramAfter, paramMinAttempts}
	if !slices.Contains(known, name) {
		return problem.InvalidField.New("A parameter of the query " + what + "; known are " + strings.Join(known, ", ") + ".")
	}
	return problem.InvalidField.New("The parameter "+name+" "+what+".", problem.Field(name))
}

// claim returns the parameter claim, or no claim without it. An empty value, as an unset shell variable gives, is an
// error: it was meant to limit the change.
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

// claimOf returns the claim that limits a change, and ends the query. Adds have none.
func (q *query) claimOf(change attempt.Change) (claim attempt.Claim, err error) {
	if change != attempt.Add {
		claim = q.claim()
	}
	return claim, q.end()
}

// number returns a required parameter of digits.
func (q *query) number(name string) int64 {
	n, err := strconv.ParseUint(q.require(name), 10, 63)
	if err != nil {
		q.fail(badParam(name, "must be a whole number in digits"))
	}
	return int64(n)
}

// count returns the parameter count. Values above MaxPage become MaxPage+1.
func (q *query) count() int { return int(min(q.number(paramCount), attempt.MaxPage+1)) }

// lease returns the parameter lease.
func (q *query) lease() time.Duration {
	lease, err := time.ParseDuration(q.require(paramLease))
	if err != nil {
		q.fail(badParam(paramLease, "must be a duration such as 60s or 1h30m"))
	}
	return lease
}
