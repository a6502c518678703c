package config

import (
	"errors"
	"slices"
	"strings"
)

// Faults collects the faults of a configuration, so that all are reported at once.
type Faults struct {
	sentences []string
	unread    map[string]bool // variables without a valid value
}

// Add records a fault. The sentence names the variables and contains no secret. Pass every variable that it is about:
// the fault is dropped if one of them could not be read, because its value is unknown. It is dropped too if the same
// sentence was added before, by a Validate that an outer struct inherits.
func (f *Faults) Add(sentence string, variables ...string) {
	unread := slices.ContainsFunc(variables, func(name string) bool { return f.unread[name] })
	if !unread && !slices.Contains(f.sentences, sentence) {
		f.sentences = append(f.sentences, sentence)
	}
}

// err returns all faults as one error; nil if there are none.
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
