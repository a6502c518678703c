package strictjson

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

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
		`{"amount":-9223372036854775808,"big":18446744073709551615}`: {Amount: &least, Big: math.MaxUint64},
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
		{"string for a number", `{"amount":"1"}`, problem.InvalidField, "amount"},
		{"2^63", `{"amount":9223372036854775808}`, problem.InvalidField, "amount"},
		{"uint8 and 256", `{"small":256}`, problem.InvalidField, "small"},
		{"uint8 and -1", `{"small":-1}`, problem.InvalidField, "small"},
		{"int8 and 128", `{"cards":[{},{"exp_month":128}]}`, problem.InvalidField, "cards[1].exp_month"},
		{"number for a string", `{"text":1}`, problem.InvalidField, "text"},
		{"object for a list", `{"items":{}}`, problem.InvalidField, "items"},
		{"list for an object", `{"card":[]}`, problem.InvalidField, "card"},
		{"unknown", `{"amuont":1}`, problem.InvalidField, "amuont"},
		{"other case", `{"Amount":1}`, problem.InvalidField, "Amount"},
		{"unknown inside", `{"card":{"pin":1}}`, problem.InvalidField, "card.pin"},
		{"empty name", `{"":1}`, problem.InvalidField, noField},
		{"a card number as a name", `{"4242424242424242":1}`, problem.InvalidField, noField},
		{"a card number twice", `{"amount":{"4242424242424242":1,"4242424242424242":2}}`, problem.InvalidField, "amount"},
		{"doubled inside a card number", `{"text":{"4242424242424242":{"a":1,"a":1}}}`, problem.InvalidField, "text"},
		{"a name with markup", `{"<script>":1}`, problem.InvalidField, noField},
		{"a long name inside", `{"card":{"` + strings.Repeat("x", 65) + `":1}}`, problem.InvalidField, "card"},
		{"doubled", `{"amount":1,"amount":1}`, problem.InvalidField, "amount"},
		{"doubled inside", `{"cards":[{"number":"a","number":"a"}]}`, problem.InvalidField, "cards[0].number"},
		{"the first fault counts", `{"x":1,"amount":null}`, problem.InvalidField, "x"},

		{"nothing", ``, problem.InvalidJSON, noField},
		{"list", `[]`, problem.InvalidJSON, noField},
		{"null body", `null`, problem.InvalidJSON, noField},
		{"half an object", `{"amount":1`, problem.InvalidJSON, noField},
		{"comma at the end", `{"amount":1,}`, problem.InvalidJSON, noField},
		{"bare name", `{amount:1}`, problem.InvalidJSON, noField},
		{"leading zero", `{"amount":01}`, problem.InvalidJSON, noField},
		{"tru", `{"flag":tru}`, problem.InvalidJSON, noField},
		{"trailing data", `{"amount":1}{}`, problem.InvalidJSON, noField},
		{"trailing word", `{} x`, problem.InvalidJSON, noField},
		{"byte order mark", "\ufeff{}", problem.InvalidJSON, noField},
		{"invalid UTF-8", "{\"text\":\"\xff\"}", problem.InvalidJSON, noField},
		{"invalid UTF-8 in a name", "{\"\xff\":1}", problem.InvalidJSON, noField},
		{"lone surrogate", `{"text":"\ud800"}`, problem.InvalidJSON, noField},
		{"bad escape", `{"text":"\x41"}`, problem.InvalidJSON, noField},
		{"string without end", `{"text":"x`, problem.InvalidJSON, noField},
		{"line break in a string", "{\"text\":\"\n\"}", problem.InvalidJSON, noField},
		{"deep", `{"x":` + deep[1:len(deep)-1] + `}`, problem.InvalidJSON, noField},
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
		`{"text":true}`:                   "The member text must be a string.",
		`{"amount":1,"amount":1}`:         "The member amount is repeated.",
		`{"amont":1}`:                     "There is no member amont.",
		`{"4242424242424242":"a secret"}`: "There is a member with an unknown name.",
		`{"amount":1,}`:                   "The body is not valid JSON at byte 11.",
		`{"amount":1`:                     "The body is not valid JSON at byte 11.",
		"{\"text\":\"\xff\"}":             "The body is not valid JSON at byte 9.",
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
		`{"card":{"number":"1"},"cards":[{"number":"2"},{}]}`: "cards[1].number",
		`{"x":1}`: "x", `{"card":{},"x":1}`: "card.number",
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
