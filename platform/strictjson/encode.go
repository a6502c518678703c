package strictjson

import (
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// timeLayout is RFC 3339 in UTC with microseconds, the resolution of PostgreSQL.
const timeLayout = "2006-01-02T15:04:05.000000Z"

// encoding is the form of JSON in all answers: compact, times in UTC with microseconds, nothing escaped for HTML.
var encoding = json.JoinOptions(
	json.Deterministic(true),
	jsontext.EscapeForJS(true), // U+2028 and U+2029, like encoding/json
	jsonv1.OmitEmptyWithLegacySemantics(true),
	json.WithMarshalers(json.MarshalToFunc(func(out *jsontext.Encoder, t time.Time) error {
		var text [len(timeLayout) + 2]byte
		text[0] = '"'
		quoted := append(t.UTC().AppendFormat(text[:1], timeLayout), '"')
		return out.WriteValue(quoted)
	})),
)

// Marshal returns v as compact JSON.
func Marshal(v any) ([]byte, error) {
	data, err := json.Marshal(v, encoding)
	if err != nil {
		return nil, fmt.Errorf("strictjson: encode: %w", err)
	}
	return data, nil
}

// Write writes v to w as compact JSON.
func Write(w io.Writer, v any) error {
	if err := json.MarshalWrite(w, v, encoding); err != nil {
		return fmt.Errorf("strictjson: encode: %w", err)
	}
	return nil
}

// Array is a sequence that Write encodes as a JSON array, value by value: it holds neither all values nor their
// encoding in memory.
type Array[T any] iter.Seq[T]

// MarshalJSONTo implements json.MarshalerTo.
func (a Array[T]) MarshalJSONTo(out *jsontext.Encoder) error {
	if err := out.WriteToken(jsontext.BeginArray); err != nil {
		return err
	}
	for value := range a {
		if err := json.MarshalEncode(out, value); err != nil {
			return err
		}
	}
	return out.WriteToken(jsontext.EndArray)
}
