package httpserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rowlock/rowlock/platform/problem"
)

type card struct {
	Number string `json:"number"`
	Month  int8   `json:"exp_month"`
}

// everything has every type that DecodeJSON reads.
type everything struct {
	Amount *int64   `json:"amount"`
	Text   string   `json:"text"`
	Flag   bool     `json:"flag"`
	Small  uint8    `json:"small"`
	Big    uint64   `json:"big"`
	Items  []string `json:"items"`
	Card   *card    `json:"card"`
	Cards  []card   `json:"cards"`
	Plain  int      // without a tag
	Hidden string   `json:"-"`
}

func request(t testing.TB, body string, headers ...string) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(body))
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

func TestDecodeJSON(t *testing.T) {
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
		if err := DecodeJSON(request(t, body), &got); err != nil {
			t.Errorf("%s: %v", body, err)
		} else if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", body, got, want)
		}
	}
}

// Every refusal, with the member that it blames.
func TestDecodeJSONRefuses(t *testing.T) {
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
			err := DecodeJSON(request(t, c.body), &got)
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
	if err := DecodeJSON(request(t, `{"x":`+deep[2:len(deep)-2]+`}`), new(everything)); err == nil ||
		!strings.Contains(err.Error(), "There is no member x.") {
		t.Errorf("32 levels: %v, want the unknown member", err)
	}
}

// Only the bound that is broken is named, and never one that the handler may not allow.
func TestDecodeJSONRange(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"amount":9223372036854775808}`:    "The member amount must be at most 9223372036854775807.",
		`{"amount":-9223372036854775809}`:   "The member amount is too small.",
		`{"small":256}`:                     "The member small must be at most 255.",
		`{"small":-1}`:                      "The member small must be at least 0.",
		`{"big":18446744073709551616}`:      "The member big must be at most 18446744073709551615.",
		`{"amount":1e3}`:                    "The member amount must be a whole number in digits, without fraction or exponent.",
		`{"amount":1,"amount":1}`:           "The member amount is there twice.",
		`{"amont":1}`:                       "There is no member amont.",
		`{"4242424242424242":"a secret"}`:   "There is a member with an unknown name.",
		`{"amount":1,"4242 4242":"a card"}`: "There is a member with an unknown name.",
	} {
		p, ok := errors.AsType[*problem.Error](DecodeJSON(request(t, body), new(everything)))
		if !ok || p.Detail() != want {
			t.Errorf("%s: got %v, want %s", body, p, want)
		}
	}
}

func TestDecodeJSONEmpty(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", " ", "\r\n\t "} {
		one := int64(1)
		got := everything{Amount: &one}
		if err := DecodeJSON(request(t, body), &got, AllowEmpty()); err != nil || got.Amount != &one {
			t.Errorf("%q: %v, %+v", body, err, got)
		}
	}
	r := request(t, "")
	r.Body = nil
	if err := DecodeJSON(r, new(everything), AllowEmpty()); err != nil {
		t.Error(err)
	}
	if err := DecodeJSON(request(t, "null"), new(everything), AllowEmpty()); err == nil {
		t.Error("null passes for an absent body")
	}
}

func TestDecodeJSONMediaTypes(t *testing.T) {
	t.Parallel()
	for contentType, fine := range map[string]bool{
		"application/json":                   true,
		"application/json; charset=utf-8":    true,
		"Application/JSON;charset=\"utf-8\"": true,
		" application/json ":                 true,
		"application/json;":                  true,
		"application/merge-patch+json":       true,
		"application/problem+json; x=y":      true,
		"":                                   true,
		"text/plain":                         false,
		"text/json":                          false,
		"application/x-www-form-urlencoded":  false,
		"application/jsonp":                  false,
		"application/json, text/plain":       false,
		"+json":                              false,
		"application/+json":                  false,
		"/x+json":                            false,
		"application/xml":                    false,
	} {
		err := DecodeJSON(request(t, "{}", "Content-Type", contentType), new(everything))
		p, _ := errors.AsType[*problem.Error](err)
		if fine != (err == nil) || !fine && p.Kind() != problem.UnsupportedMediaType {
			t.Errorf("%q: %v", contentType, err)
		}
	}
	if err := DecodeJSON(request(t, "{}"), new(everything)); err != nil {
		t.Errorf("without Content-Type: %v", err)
	}
	for _, headers := range [][]string{
		{"Content-Type", "application/json", "Content-Encoding", "gzip"},
		{"Content-Type", "text/plain", "Content-Type", "application/json"},
	} {
		err := DecodeJSON(request(t, "{}", headers...), new(everything))
		if p, ok := errors.AsType[*problem.Error](err); !ok || p.Kind() != problem.UnsupportedMediaType {
			t.Errorf("%v: %v", headers, err)
		}
	}
}

// What only the program can get wrong is not the client's fault.
func TestDecodeJSONBugs(t *testing.T) {
	t.Parallel()
	type embedded struct{ card }
	for name, dst := range map[string]any{
		"no pointer": everything{},
		"nil":        (*everything)(nil),
		"no struct":  new(int),
		"map":        &struct{ M map[string]int }{},
		"float":      &struct{ F float64 }{},
		"interface":  &struct{ A any }{},
		"embedded":   &embedded{},
		"unexported": &struct{ a int }{},
		"same name": &struct {
			A int
			B int `json:"A"`
		}{},
	} {
		err := DecodeJSON(request(t, "{}"), dst)
		if _, blamed := errors.AsType[*problem.Error](err); err == nil || blamed {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type tree struct {
	Left *tree `json:"left"`
	N    int   `json:"n"`
}

func TestDecodeJSONRecursiveType(t *testing.T) {
	t.Parallel()
	nested := func(levels int) string {
		return strings.Repeat(`{"left":`, levels-1) + `{"n":1}` + strings.Repeat(`}`, levels-1)
	}
	if err := DecodeJSON(request(t, nested(32)), new(tree)); err != nil {
		t.Error(err)
	}
	err := DecodeJSON(request(t, nested(33)), new(tree))
	if p, ok := errors.AsType[*problem.Error](err); !ok || p.Kind() != problem.InvalidJSON {
		t.Errorf("33 levels: %v", err)
	}
}

// A body that breaks off is the client's, whatever the reason.
func TestDecodeJSONBodyBreaksOff(t *testing.T) {
	t.Parallel()
	r := request(t, "")
	r.Body = io.NopCloser(io.MultiReader(strings.NewReader(`{"amount":1`), iotestErrReader{}))
	err := DecodeJSON(r, new(everything))
	if p, ok := errors.AsType[*problem.Error](err); !ok || p.Kind() != problem.InvalidJSON || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%v", err)
	}
}

type iotestErrReader struct{}

func (iotestErrReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// encoding/json is the judge of what is JSON, and of what it means.
func FuzzDecodeJSON(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"amount":1}`, `{"amount":1e3}`, `{"text":"\ud83d\ude00","items":["a","b"]}`, `{"cards":[{"exp_month":12}]}`,
		`{"small":-0}`, `{"card":{"number":null}}`, `[1,{"a":[]}]`, `{"text":"\ud800"}`, "{\"text\":\"\xff\"}", `{"x":[[[]]]}`, ` {} `,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var got, want everything
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", bytes.NewReader(body))
		err := DecodeJSON(r, &got)
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
