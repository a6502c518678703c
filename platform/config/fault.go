package config

import (
	"errors"
	"slices"
	"strings"
)

// Faults collects what is wrong with a configuration, so that all of it is reported at once.
type Faults struct {
	sentences []string
	unread    map[string]bool // by the variable's name: it has no value, or one that its tags do not allow
}

// Add records a fault. The sentence names the variables and repeats no secret. Name every variable that it is about: it
// is left out when one of them could not be read, because it would speak of a value that is not set. A sentence that
// was added before, by a Validate that an outer struct inherits, is left out too.
func (f *Faults) Add(sentence string, variables ...string) {
	unread := slices.ContainsFunc(variables, func(name string) bool { return f.unread[name] })
	if !unread && !slices.Contains(f.sentences, sentence) {
		f.sentences = append(f.sentences, sentence)
	}
}

// err returns all faults as one error, nil when there are none.
func (f *Faults) err() error {
	switch len(f.sentences) {
	case 0:
		return nil
	case 1:
		return errors.New("configuration: " + f.sentences[0])
	default:
		return errors.New("configuration:\n  " + strings.Join(f.sentences, "\n  "))
	}
}
