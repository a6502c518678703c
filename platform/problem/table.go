package problem

import (
	"errors"
	"time"
)

// Row says what a client learns about one error of a service.
type Row struct {
	// Err is what the errors of the row wrap.
	Err  error
	Kind Kind
	// Detail is the sentence; empty stands for the text of the error itself, which must be fit for a client.
	Detail string
	// Field is that of the option [Field], and RetryAfter that of the option [RetryAfter]; both may be left out.
	Field      string
	RetryAfter time.Duration
}

// Table holds the errors of a service.
type Table []Row

// Of returns the problem of the first row that err belongs to, and nil when there is none.
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

// Sentence returns the text of an error that is fit for a client as a sentence.
func Sentence(err error) string {
	text := err.Error()
	if 'a' <= text[0] && text[0] <= 'z' {
		text = string(text[0]-'a'+'A') + text[1:]
	}
	return text + "."
}
