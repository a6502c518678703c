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
func Read(values []byte) (keys []Key, err error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(values, &doc); err != nil {
		return nil, fmt.Errorf("values: %w", err)
	}

	var read func(node *yaml.Node, prefix string, covered bool)
	read = func(node *yaml.Node, prefix string, covered bool) {
		for i := 0; i < len(node.Content); i += 2 {
			key, value := node.Content[i], node.Content[i+1]
			path, text := prefix+key.Value, describe(key.HeadComment)
			inner := value.Kind == yaml.MappingNode && len(value.Content) > 0
			switch {
			case text != "" && inner && commented(value):
				keys = append(keys, Key{Path: path, Text: text})
			case text != "":
				written, failed := encode(value)
				keys, err = append(keys, Key{Path: path, Default: written, Text: text}), errors.Join(err, failed)
				continue
			case !inner && !covered:
				err = errors.Join(err, fmt.Errorf("values: no comment with -- describes %s", path))
			}
			if inner {
				read(value, path+".", covered || text != "")
			}
		}
	}
	read(doc.Content[0], "", false)
	return keys, err
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

// encode returns a value as JSON.
func encode(node *yaml.Node) (string, error) {
	var value any
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := node.Decode(&value)
	err = errors.Join(err, encoder.Encode(value))
	return strings.TrimSpace(out.String()), err
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
