package httpold

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// yamlToJSON turns a document into JSON with its members in their order: the
// page shows operations as the contract lists them.
func yamlToJSON(source []byte) ([]byte, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(source, &doc); err != nil {
		return nil, fmt.Errorf("not YAML: %w", err)
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("not a YAML document with members")
	}
	var out bytes.Buffer
	if err := writeNode(&out, doc.Content[0]); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func writeNode(out *bytes.Buffer, n *yaml.Node) error {
	switch n.Kind {
	case yaml.MappingNode:
		return writePairs(out, n.Content)
	case yaml.SequenceNode:
		out.WriteByte('[')
		for i, item := range n.Content {
			if i > 0 {
				out.WriteByte(',')
			}
			if err := writeNode(out, item); err != nil {
				return err
			}
		}
		out.WriteByte(']')
		return nil
	case yaml.ScalarNode:
		return writeScalar(out, n)
	case yaml.AliasNode, yaml.DocumentNode:
	}
	// The contract comes with the binary; anchors would only hide what it says.
	return fmt.Errorf("line %d: an alias, which JSON does not have", n.Line)
}

func writePairs(out *bytes.Buffer, content []*yaml.Node) error {
	out.WriteByte('{')
	for i := 0; i+1 < len(content); i += 2 {
		if i > 0 {
			out.WriteByte(',')
		}
		if err := writeValue(out, content[i].Value); err != nil { // a status as a key may be a number in YAML
			return err
		}
		out.WriteByte(':')
		if err := writeNode(out, content[i+1]); err != nil {
			return err
		}
	}
	out.WriteByte('}')
	return nil
}

func writeScalar(out *bytes.Buffer, n *yaml.Node) error {
	switch n.ShortTag() {
	case "!!null":
		return writeValue(out, nil)
	case "!!bool", "!!int", "!!float":
		var v any
		if err := n.Decode(&v); err != nil {
			return fmt.Errorf("line %d: %w", n.Line, err)
		}
		return writeValue(out, v)
	default: // a date is text in JSON
		return writeValue(out, n.Value)
	}
}

func writeValue(out *bytes.Buffer, v any) error {
	encoded, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("the value %v: %w", v, err)
	}
	out.Write(encoded)
	return nil
}
