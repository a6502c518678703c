package auth

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// rule is a policy rule as written.
type rule struct {
	Subjects []string `yaml:"subjects"`
	Services []string `yaml:"services"`
	Allow    []Right  `yaml:"allow"`
}

// rights holds the rights for one service, by subject.
type rights struct {
	exact    map[string][]Right
	prefixes []prefixed
}

// prefixed holds the rights of all subjects with a prefix.
type prefixed struct {
	prefix string
	allow  []Right
}

// parsePolicy returns the rights that a YAML policy grants for one service. It refuses unknown members and rights, and
// a star anywhere but at the end of a subject.
func parsePolicy(source []byte, service string) (*rights, error) {
	var document struct {
		Rules []rule `yaml:"rules"`
	}

	decoder := yaml.NewDecoder(bytes.NewReader(source))
	decoder.KnownFields(true)
	if err := decoder.Decode(&document); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("not a policy in YAML: %w", err)
	}
	if err := decoder.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more than one YAML document")
	}

	if document.Rules == nil {
		return nil, errors.New("there is no list of rules; a policy that allows nothing says rules: []")
	}

	all := &rights{exact: make(map[string][]Right)}
	for i, r := range document.Rules {
		if err := r.check(); err != nil {
			return nil, fmt.Errorf("rule %d: %w", i+1, err)
		}
		if slices.Contains(r.Services, service) {
			all.add(r)
		}
	}
	return all, nil
}

// check returns an error if the rule is invalid.
func (r rule) check() error {
	if len(r.Subjects) == 0 || len(r.Services) == 0 || len(r.Allow) == 0 {
		return errors.New("subjects, services and allow must each have an entry")
	}
	for _, subject := range r.Subjects {
		if !validSubject(subject) || strings.Contains(strings.TrimSuffix(subject, "*"), "*") {
			return fmt.Errorf("the subject %q must be a name, or a prefix followed by *", subject)
		}
	}

	for _, service := range r.Services {
		if service == "" || strings.Trim(service, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			return fmt.Errorf("%q is not the name of a service, such as counts", service)
		}
	}

	for _, right := range r.Allow {
		if right != Read && right != Change && right != Administer {
			return fmt.Errorf("%q is not a right: %s, %s or %s", right, Read, Change, Administer)
		}
	}
	return nil
}

func (all *rights) add(r rule) {
	for _, subject := range r.Subjects {
		if prefix, ok := strings.CutSuffix(subject, "*"); ok {
			all.prefixes = append(all.prefixes, prefixed{prefix, r.Allow})
		} else {
			all.exact[subject] = append(all.exact[subject], r.Allow...)
		}
	}
}

// allow reports whether a rule gives the right to the subject.
func (all *rights) allow(subject string, right Right) bool {
	if slices.Contains(all.exact[subject], right) {
		return true
	}
	for _, p := range all.prefixes {
		if strings.HasPrefix(subject, p.prefix) && slices.Contains(p.allow, right) {
			return true
		}
	}
	return false
}

// none reports whether no subject has a right.
func (all *rights) none() bool { return len(all.exact) == 0 && len(all.prefixes) == 0 }
