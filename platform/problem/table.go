package problem

import (
	"errors"
	"time"
)

// Row maps one error of a service to a problem.
type Row struct {
	// Err is the error that errors of this row wrap.
	Err  error
	Kind Kind
	// Detail is the sentence for the client; if empty, the error's text is used, which must then be fit for a client.
	Detail string
	// Field and RetryAfter set the options of the same name; both may be left out.
	Field      string
	RetryAfter time.Duration
}

// Table maps the errors of a service to problems.
type Table []Row

// Of returns the problem of the first row that matches err; nil if there is none.
func (t Table) Of(err error) *Error {
	for _, row := range t {
		if !errors.Is(err, row.Err) {
			continue
		}
		if row.Detail == "" {
			row.Detail = Sentence(err)
		}
		return row.Kind.New(row.Detail, Field(row.Field), RetryAfter(row.RetryAfter), Cause(err))
	}
	return nil
}

// Sentence turns the text of an error that is fit for a client into a sentence.
func Sentence(err error) string {
	text := err.Error()
	if 'a' <= text[0] && text[0] <= 'z' {
		text = string(text[0]-'a'+'A') + text[1:]
	}
	return text + "."
}
