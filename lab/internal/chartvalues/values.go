// Package chartvalues reads the keys of a chart's values.yaml with their comments. A comment that begins with "--"
// describes the key below it, and the keys inside that one unless one of them has such a comment.
package chartvalues

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Key describes a key of values.yaml that a user may set.
type Key struct {
	// Path is the dotted path, such as image.tag.
	Path string
	// Default is its value as JSON, or "" where its parts are keys themselves.
	Default string
	// Text is what its comment says, in one line.
	Text string
}

// Read returns the keys in the order of the file. A value that no comment covers is an error.
func Read(values []byte) ([]Key, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(values, &doc); err != nil {
		return nil, fmt.Errorf("values: %w", err)
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("values: not a map")
	}
	r := reader{}
	r.mapping(doc.Content[0], "", false)
	if len(r.silent) > 0 {
		return nil, fmt.Errorf("values: no comment with -- describes %s", strings.Join(r.silent, ", "))
	}
	return r.keys, r.err
}

type reader struct {
	keys   []Key
	silent []string
	err    error
}

func (r *reader) mapping(node *yaml.Node, prefix string, covered bool) {
	for i := 0; i < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		path, text := prefix+key.Value, describe(key.HeadComment)
		inner := value.Kind == yaml.MappingNode && len(value.Content) > 0
		switch {
		case text != "" && inner && commented(value):
			r.keys = append(r.keys, Key{Path: path, Text: text})
		case text != "":
			r.keys = append(r.keys, Key{Path: path, Default: r.json(value), Text: text})
			continue
		case !inner && !covered:
			r.silent = append(r.silent, path)
		}
		if inner {
			r.mapping(value, path+".", covered || text != "")
		}
	}
}

// commented reports whether a key below has its own description.
func commented(node *yaml.Node) bool {
	for i := 0; i < len(node.Content); i += 2 {
		if describe(node.Content[i].HeadComment) != "" ||
			node.Content[i+1].Kind == yaml.MappingNode && commented(node.Content[i+1]) {
			return true
		}
	}
	return false
}

func (r *reader) json(node *yaml.Node) string {
	var value any
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	r.err = errors.Join(r.err, node.Decode(&value), encoder.Encode(value))
	return strings.TrimSpace(out.String())
}

// describe returns the text of the comment's last paragraph when that begins with --.
func describe(comment string) string {
	if i := strings.LastIndex(comment, "\n\n"); i >= 0 {
		comment = comment[i+2:]
	}
	text, found := strings.CutPrefix(comment, "# -- ")
	if !found {
		return ""
	}
	return strings.ReplaceAll(text, "\n# ", " ")
}
