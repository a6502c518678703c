package config

import (
	"errors"
	"slices"
	"strings"
)

// VariableError is one fault of the configuration.
type VariableError struct {
	// Variables are the names of those concerned.
	Variables []string
	// Sentence says what is wrong; it names the variables and repeats no secret.
	Sentence string
}

// Error returns the sentence.
func (e *VariableError) Error() string { return e.Sentence }

// Faults collects what a Validate method finds, so that all of it is reported at once. The zero value is ready for use.
type Faults struct{ list []error }

// Add records a fault. Name every variable that the sentence is about: Load leaves a fault out when one of them could
// not be read, because the sentence would speak of a value that is not set.
func (f *Faults) Add(sentence string, variables ...string) {
	f.list = append(f.list, &VariableError{Variables: variables, Sentence: sentence})
}

// Err returns all faults as one error, nil when there are none.
func (f *Faults) Err() error { return errors.Join(f.list...) }

// loadError holds all faults, in the order in which the variables are declared.
type loadError struct{ faults []error }

// Error returns the sentence, or the sentences, one a line.
func (e *loadError) Error() string {
	if len(e.faults) == 1 {
		return "configuration: " + e.faults[0].Error()
	}
	var b strings.Builder
	b.WriteString("configuration:")
	for _, f := range e.faults {
		b.WriteString("\n  " + f.Error())
	}
	return b.String()
}

// Unwrap returns the faults.
func (e *loadError) Unwrap() []error { return e.faults }

// flatten returns the errors that were joined.
func flatten(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

// merge adds the faults that Validate methods found to those of reading, without those that are there already (of a
// Validate that an outer struct inherits) and those of a variable that was not read.
func merge(faults, found []error) []error {
	unread, said := map[string]bool{}, map[string]bool{}
	for _, f := range faults {
		if fault, ok := errors.AsType[*VariableError](f); ok {
			unread[fault.Variables[0]] = true
		}
	}
	for _, f := range found {
		fault, ok := errors.AsType[*VariableError](f)
		if ok && slices.ContainsFunc(fault.Variables, func(name string) bool { return unread[name] }) || said[f.Error()] {
			continue
		}
		said[f.Error()] = true
		faults = append(faults, f)
	}
	return faults
}
