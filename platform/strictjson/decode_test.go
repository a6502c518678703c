package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rowlock/rowlock/platform/problem"
)

type card struct {
	Number string `json:"number,omitempty"`
	Month  int8   `json:"exp_month,omitempty"`
}

// everything has every type that DecodeJSON reads.
type everything struct {
	Amount *int64   `json:"amount,omitempty"`
	Text   string   `json:"text,omitempty"`
	Flag   bool     `json:"flag,omitempty"`
	Small  uint8    `json:"small,omitempty"`
	Big    uint64   `json:"big,omitempty"`
	Items  []string `json:"items,omitempty"`
	Card   *card    `json:"card,omitempty"`
	Cards  []card   `json:"cards,omitempty"`
	Plain  int      `json:",omitempty"`
	Hidden string   `json:"-"`
}

func TestUnmarshal(t *testing.T) {
	t.Parallel()
	one, least := int64(1), int64(math.MinInt64)
	for body, want := range map[string]everything{
		`{}`:             {},
		" \t\r\n{ } \n":  {},
		`{"amount":1}`:   {Amount: &one},
		`{"amount": 1 }`: {Amount: &one},
		`{"amount":-9223372036854775808,"small":255,"big":18446744073709551615}`: {Amount: &least, Small: 255, Big: math.MaxUint64},
		`{"big":0,"Plain":-0}`:                             {},
		`{"text":"a\"\\\/\b\f\n\r\té\u00e9\ud83d\ude00😀"}`: {Text: "a\"\\/\b\f\n\r\téé😀😀"},
		`{"te\u0078t":"x"}`:                                {Text: "x"},
		`{"text":"\u0000"}`:                                {Text: "\x00"},
		`{"flag":true,"Plain":7}`:                          {Flag: true, Plain: 7},
		`{"flag":false}`:                                   {},
		`{"items":[]}`:                                     {Items: []string{}},
		`{"items":["a","b","c","d","e","f"]}`:              {Items: []string{"a", "b", "c", "d", "e", "f"}},
		`{"card":{"number":"n","exp_month":-128}}`:         {Card: &card{"n", -128}},
		`{"cards":[{"number":"1"},{},{"exp_month":127}]}`:  {Cards: []card{{Number: "1"}, {}, {Month: 127}}},
	} {
		var got everything
		if err := Unmarshal([]byte(body), &got); err != nil {
			t.Errorf("%s: %v", body, err)
		} else if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", body, got, want)
		}
	}
}

// Every refusal, with the member that it blames.
func TestUnmarshalRefuses(t *testing.T) {
	t.Parallel()
	const noField = ""
	deep := strings.Repeat("[", 33) + strings.Repeat("]", 33)
	for _, c := range []struct {
		name, body string
		kind       problem.Kind
		field      string
	}{
		{"null", `{"amount":null}`, problem.InvalidField, "amount"},
		{"null inside", `{"card":{"number":null}}`, problem.InvalidField, "card.number"},
		{"null in a list", `{"items":["a",null]}`, problem.InvalidField, "items[1]"},
		{"null object", `{"card":null}`, problem.InvalidField, "card"},
		{"exponent", `{"amount":1e3}`, problem.InvalidField, "amount"},
		{"fraction", `{"amount":1.0}`, problem.InvalidField, "amount"},
		{"half", `{"amount":0.5}`, problem.InvalidField, "amount"},
		{"string for a number", `{"amount":"1"}`, problem.InvalidField, "amount"},
		{"boolean for a number", `{"amount":true}`, problem.InvalidField, "amount"},
		{"2^63", `{"amount":9223372036854775808}`, problem.InvalidField, "amount"},
		{"-2^63-1", `{"amount":-9223372036854775809}`, problem.InvalidField, "amount"},
		{"a very long number", `{"amount":` + strings.Repeat("9", 400) + `}`, problem.InvalidField, "amount"},
		{"uint8 and 256", `{"small":256}`, problem.InvalidField, "small"},
		{"uint8 and -1", `{"small":-1}`, problem.InvalidField, "small"},
		{"unsigned and a sign", `{"big":-0}`, problem.InvalidField, "big"},
		{"uint64 and 2^64", `{"big":18446744073709551616}`, problem.InvalidField, "big"},
		{"int8 and 128", `{"cards":[{},{"exp_month":128}]}`, problem.InvalidField, "cards[1].exp_month"},
		{"number for a string", `{"text":1}`, problem.InvalidField, "text"},
		{"string for a boolean", `{"flag":"true"}`, problem.InvalidField, "flag"},
		{"object for a list", `{"items":{}}`, problem.InvalidField, "items"},
		{"list for an object", `{"card":[]}`, problem.InvalidField, "card"},
		{"unknown", `{"amuont":1}`, problem.InvalidField, "amuont"},
		{"other case", `{"Amount":1}`, problem.InvalidField, "Amount"},
		{"unknown inside", `{"card":{"pin":1}}`, problem.InvalidField, "card.pin"},
		{"field without a member", `{"Hidden":"x"}`, problem.InvalidField, "Hidden"},
		{"its dash", `{"-":"x"}`, problem.InvalidField, "-"},
		{"empty name", `{"":1}`, problem.InvalidField, noField},
		{"a card number as a name", `{"4242424242424242":1}`, problem.InvalidField, noField},
		{"a name with markup", `{"<script>":1}`, problem.InvalidField, noField},
		{"a long name inside", `{"card":{"` + strings.Repeat("x", 65) + `":1}}`, problem.InvalidField, "card"},
		{"doubled", `{"amount":1,"amount":1}`, problem.InvalidField, "amount"},
		{"doubled by escape", `{"amount":1,"\u0061mount":2}`, problem.InvalidField, "amount"},
		{"doubled inside", `{"cards":[{"number":"a","number":"a"}]}`, problem.InvalidField, "cards[0].number"},
		{"the first fault counts", `{"x":1,"amount":null}`, problem.InvalidField, "x"},

		{"nothing", ``, problem.InvalidJSON, noField},
		{"blank", " \n", problem.InvalidJSON, noField},
		{"list", `[]`, problem.InvalidJSON, noField},
		{"null body", `null`, problem.InvalidJSON, noField},
		{"string body", `"x"`, problem.InvalidJSON, noField},
		{"number body", `1`, problem.InvalidJSON, noField},
		{"half an object", `{"amount":1`, problem.InvalidJSON, noField},
		{"no value", `{"amount":}`, problem.InvalidJSON, noField},
		{"no colon", `{"amount" 1}`, problem.InvalidJSON, noField},
		{"no comma", `{"amount":1 "text":""}`, problem.InvalidJSON, noField},
		{"comma at the end", `{"amount":1,}`, problem.InvalidJSON, noField},
		{"comma at the start", `{,"amount":1}`, problem.InvalidJSON, noField},
		{"comma in a list", `{"items":["a",]}`, problem.InvalidJSON, noField},
		{"no comma in a list", `{"items":["a" "b"]}`, problem.InvalidJSON, noField},
		{"wrong bracket", `{"items":["a"}}`, problem.InvalidJSON, noField},
		{"bare name", `{amount:1}`, problem.InvalidJSON, noField},
		{"single quotes", `{'amount':1}`, problem.InvalidJSON, noField},
		{"comment", `{/**/}`, problem.InvalidJSON, noField},
		{"leading zero", `{"amount":01}`, problem.InvalidJSON, noField},
		{"plus", `{"amount":+1}`, problem.InvalidJSON, noField},
		{"minus alone", `{"amount":-}`, problem.InvalidJSON, noField},
		{"no digit after the point", `{"amount":1.}`, problem.InvalidJSON, noField},
		{"no digit in the exponent", `{"amount":1e+}`, problem.InvalidJSON, noField},
		{"hexadecimal", `{"amount":0x1}`, problem.InvalidJSON, noField},
		{"NaN", `{"amount":NaN}`, problem.InvalidJSON, noField},
		{"tru", `{"flag":tru}`, problem.InvalidJSON, noField},
		{"nul", `{"amount":nul}`, problem.InvalidJSON, noField},
		{"trailing data", `{"amount":1}{}`, problem.InvalidJSON, noField},
		{"trailing word", `{} x`, problem.InvalidJSON, noField},
		{"trailing NUL", "{}\x00", problem.InvalidJSON, noField},
		{"byte order mark", "\ufeff{}", problem.InvalidJSON, noField},
		{"other space", "{\u00a0}", problem.InvalidJSON, noField},
		{"invalid UTF-8", "{\"text\":\"\xff\"}", problem.InvalidJSON, noField},
		{"invalid UTF-8 beside an escape", "{\"text\":\"\\n\xc3\"}", problem.InvalidJSON, noField},
		{"invalid UTF-8 in a name", "{\"\xff\":1}", problem.InvalidJSON, noField},
		{"surrogate as bytes", "{\"text\":\"\xed\xa0\x80\"}", problem.InvalidJSON, noField},
		{"lone surrogate", `{"text":"\ud800"}`, problem.InvalidJSON, noField},
		{"lone low surrogate", `{"text":"\udc00"}`, problem.InvalidJSON, noField},
		{"two high surrogates", `{"text":"\ud800\ud800"}`, problem.InvalidJSON, noField},
		{"surrogate and text", `{"text":"\ud800x"}`, problem.InvalidJSON, noField},
		{"bad escape", `{"text":"\x41"}`, problem.InvalidJSON, noField},
		{"short escape", `{"text":"\u00"}`, problem.InvalidJSON, noField},
		{"string without end", `{"text":"x`, problem.InvalidJSON, noField},
		{"escape without end", `{"text":"\`, problem.InvalidJSON, noField},
		{"line break in a string", "{\"text\":\"\n\"}", problem.InvalidJSON, noField},
		{"control character after an escape", "{\"text\":\"\\t\x01\"}", problem.InvalidJSON, noField},
		{"deep", `{"x":` + deep + `}`, problem.InvalidJSON, noField},
		{"very deep", `{"x":` + strings.Repeat(`{"a":`, 20000), problem.InvalidJSON, noField},
		{"not JSON after a fault", `{"x":1,"amount":}`, problem.InvalidJSON, noField},
		{"trailing data after a fault", `{"x":1}}`, problem.InvalidJSON, noField},
		{"form", `amount=1`, problem.InvalidJSON, noField},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var got everything
			err := Unmarshal([]byte(c.body), &got)
			p, ok := errors.AsType[*problem.Error](err)
			if !ok || p.Kind() != c.kind || p.Field() != c.field {
				t.Fatalf("got %v (field %q), want %s with field %q", err, p.Field(), c.kind.Code(), c.field)
			}
			if d := p.Detail(); d[0] < 'A' || d[0] > 'Z' || !strings.HasSuffix(d, ".") {
				t.Errorf("no sentence: %s", d)
			}
			if strings.Contains(p.Detail(), "4242") {
				t.Errorf("the detail repeats the input: %s", p.Detail())
			}
		})
	}
	if err := Unmarshal([]byte(`{"x":`+deep[2:len(deep)-2]+`}`), new(everything)); err == nil ||
		!strings.Contains(err.Error(), "There is no member x.") {
		t.Errorf("32 levels: %v, want the unknown member", err)
	}
}

func TestDetails(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"amount":9223372036854775808}`:  "The member amount is out of range.",
		`{"amount":1e3}`:                  "The member amount must be a whole number in digits, without fraction or exponent.",
		`{"amount":1,"amount":1}`:         "The member amount is there twice.",
		`{"amont":1}`:                     "There is no member amont.",
		`{"4242424242424242":"a secret"}`: "There is a member with an unknown name.",
	} {
		p, ok := errors.AsType[*problem.Error](Unmarshal([]byte(body), new(everything)))
		if !ok || p.Detail() != want {
			t.Errorf("%s: got %v, want %s", body, p, want)
		}
	}
}

// A member without omitempty may not be missing, wherever it stands. A fault that comes earlier in the document counts.
func TestRequiredMembers(t *testing.T) {
	t.Parallel()
	type inner struct {
		Number string `json:"number"`
	}
	type outer struct {
		Card  inner   `json:"card"`
		Cards []inner `json:"cards,omitempty"`
		Note  *string `json:"note,omitempty"`
	}
	for body, field := range map[string]string{
		`{"card":{"number":""},"cards":[]}`: "", `{}`: "card", `{"note":"x"}`: "card", `{"card":{}}`: "card.number",
		`{"card":{"number":"1"},"cards":[{"number":"2"},{}]}`: "cards[1].number", `{"x":1}`: "x", `{"card":{},"x":1}`: "card.number",
		`{"card":null}`: "card", `{"note":1}`: "note",
	} {
		p, _ := errors.AsType[*problem.Error](Unmarshal([]byte(body), new(outer)))
		if (p == nil) != (field == "") || p != nil && (p.Kind() != problem.InvalidField || p.Field() != field) {
			t.Errorf("%s: %v, want the field %q", body, p, field)
		}
	}
	if Empty(new(outer)) == nil || Empty(new(everything)) != nil {
		t.Error("an absent body stands for a required member, or does not for optional ones")
	}
}

// What only the program can get wrong is not the client's fault.
func TestUnmarshalBugs(t *testing.T) {
	t.Parallel()
	for name, dst := range map[string]any{
		"no pointer": everything{}, "nil": nil, "nil pointer": (*everything)(nil), "no struct": new(int),
	} {
		err := Unmarshal([]byte("{}"), dst)
		if _, blamed := errors.AsType[*problem.Error](err); err == nil || blamed {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type tree struct {
	Left *tree `json:"left,omitempty"`
	N    int   `json:"n,omitempty"`
}

func TestUnmarshalRecursiveType(t *testing.T) {
	t.Parallel()
	nested := func(levels int) string {
		return strings.Repeat(`{"left":`, levels-1) + `{"n":1}` + strings.Repeat(`}`, levels-1)
	}
	if err := Unmarshal([]byte(nested(32)), new(tree)); err != nil {
		t.Error(err)
	}
	err := Unmarshal([]byte(nested(33)), new(tree))
	if p, ok := errors.AsType[*problem.Error](err); !ok || p.Kind() != problem.InvalidJSON {
		t.Errorf("33 levels: %v", err)
	}
}

// encoding/json is the judge of what is JSON, and of what it means.
func FuzzUnmarshal(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"amount":1}`, `{"amount":1e3}`, `{"text":"\ud83d\ude00","items":["a","b"]}`, `{"cards":[{"exp_month":12}]}`,
		`{"small":-0}`, `{"card":{"number":null}}`, `[1,{"a":[]}]`, `{"text":"\ud800"}`, "{\"text\":\"\xff\"}", `{"x":[[[]]]}`, ` {} `,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var got, want everything
		err := Unmarshal(body, &got)
		p, refused := errors.AsType[*problem.Error](err)
		switch {
		case err == nil:
			d := json.NewDecoder(bytes.NewReader(body))
			d.DisallowUnknownFields()
			if err := d.Decode(&want); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%q: got %+v, encoding/json %+v, %v", body, got, want, err)
			}
		case !refused:
			t.Errorf("%q: %v", body, err)
		case p.Kind() == problem.InvalidField && (!json.Valid(body) || !utf8.Valid(body)):
			t.Errorf("%q is not JSON, but: %v", body, err)
		case p.Kind() == problem.InvalidJSON && json.Valid(body) && utf8.Valid(body) &&
			!bytes.Contains(bytes.ToLower(body), []byte(`\ud`)) && bytes.Count(body, []byte("["))+bytes.Count(body, []byte("{")) <= maxDepth &&
			bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")):
			t.Errorf("%q is a JSON object, but: %v", body, err)
		}
	})
}
