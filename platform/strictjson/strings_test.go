package strictjson

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/rowlock/rowlock/platform/problem"
)

// all reads every string.
func all(s *Strings) (got []string, err error) {
	for {
		text, err := s.Next()
		if errors.Is(err, io.EOF) {
			if _, again := s.Next(); !errors.Is(again, io.EOF) {
				return got, errors.New("the end does not stay the end")
			}
			return got, nil
		}
		if err != nil {
			return got, err
		}
		if s.Index() != len(got) {
			return got, errors.New("the index is wrong")
		}
		got = append(got, string(text))
	}
}

func TestStrings(t *testing.T) {
	t.Parallel()
	for body, want := range map[string][]string{
		`{"items":[]}`:        nil,
		` { "items" : [ ] } `: nil,
		`{"items":["a"]}`:     {"a"},
		"\t{\n\"items\":[\"a\" ,\r\n \"b\",\"\"]\n}\n":                            {"a", "b", ""},
		`{"\u0069tems":["\"\\\/\b\f\n\r\t\u00e9\ud83e\udd80", "é🦀", "]}", "\\"]}`: {"\"\\/\b\f\n\r\té🦀", "é🦀", "]}", `\`},
	} {
		for name, reader := range map[string]io.Reader{
			"whole": strings.NewReader(body), "byte by byte": iotest.OneByteReader(strings.NewReader(body)),
			"with its end": iotest.DataErrReader(strings.NewReader(body)),
		} {
			if got, err := all(NewStrings(reader, "items", 10)); err != nil || !slices.Equal(got, want) {
				t.Errorf("%s, %s: %q %v, want %q", body, name, got, err, want)
			}
		}
	}
}

func TestStringsFaults(t *testing.T) {
	t.Parallel()
	bad := problem.InvalidJSON
	for body, want := range map[string]struct {
		kind  problem.Kind
		field string
	}{
		``: {bad, ""}, ` `: {bad, ""}, `[]`: {bad, ""}, `"a"`: {bad, ""},
		`{"items":[`: {bad, ""}, `{"items":["a"`: {bad, ""}, `{"items":["a`: {bad, ""},
		`{"items":["a"]`: {bad, ""}, `{"items":["a"]}}`: {bad, ""}, `{"items":["a"]}{}`: {bad, ""},
		`{"items":["a"],}`: {bad, ""}, `{"items":["\x"]}`: {bad, ""}, `{"items":["\ud800"]}`: {bad, ""},
		"{\"items\":[\"\xff\"]}": {bad, ""}, "{\"items\":[\"\n\"]}": {bad, ""}, `{}x`: {bad, ""},
		`{}`: {problem.InvalidField, "items"}, `{"items":{}}`: {problem.InvalidField, "items"},
		`{"items":null}`: {problem.InvalidField, "items"}, `{"items":[1]}`: {problem.InvalidField, "items[0]"},
		`{"items":["a",null]}`:    {problem.InvalidField, "items[1]"},
		`{"items":[],"items":[]}`: {problem.InvalidField, "items"}, `{"items":[],"other":1}`: {problem.InvalidField, "other"},
		`{"other":[]}`: {problem.InvalidField, "other"}, `{"4242424242424242":[]}`: {problem.InvalidField, ""},
	} {
		for _, reader := range []io.Reader{strings.NewReader(body), iotest.OneByteReader(strings.NewReader(body))} {
			_, err := all(NewStrings(reader, "items", 10))
			var p *problem.Error
			if !errors.As(err, &p) || p.Kind() != want.kind || p.Field() != want.field {
				t.Errorf("%s: %v, want %s %q", body, err, want.kind.Code(), want.field)
			}
		}
	}
	// The place of a syntax error in a long document.
	_, err := all(NewStrings(strings.NewReader(`{"items":["a","b",x]}`), "items", 10))
	if p, ok := errors.AsType[*problem.Error](err); !ok || p.Detail() != "The body is not valid JSON after items[1]." {
		t.Errorf("a bare word: %v", err)
	}
	broken := io.MultiReader(strings.NewReader(`{"items":["a",`), iotest.ErrReader(errors.New("cut")))
	if got, err := all(NewStrings(broken, "items", 10)); err == nil || len(got) != 1 {
		t.Errorf("a body that was cut: %q %v", got, err)
	}
}

// A string that fits is read however it is written; one that cannot fit is not gathered in memory.
func TestStringsLength(t *testing.T) {
	t.Parallel()
	const longest = 2000
	escaped := strings.Repeat(`\u0061`, longest)
	got, err := all(NewStrings(strings.NewReader(`{"items":["`+escaped+`"]}`), "items", longest))
	if err != nil || len(got) != 1 || got[0] != strings.Repeat("a", longest) {
		t.Errorf("%d strings, %v", len(got), err)
	}
	endless := io.MultiReader(strings.NewReader(`{"items":["a","`), io.LimitReader(letters{}, 1<<30))
	s := NewStrings(endless, "items", longest)
	_, err = all(s)
	var long *LongStringError
	if !errors.As(err, &long) || long.Index != 1 {
		t.Errorf("an endless string: %v", err)
	}
	if s.given > 1<<20 {
		t.Errorf("%d bytes were gathered", s.given)
	}
}

// White space may be as long as it likes, wherever it stands.
func TestStringsSpace(t *testing.T) {
	t.Parallel()
	space := strings.Repeat(" \t\r\n", 100_000)
	body := strings.ReplaceAll(`_{_"items"_:_[_"a b"_,_"  "_]_}_`, "_", space)
	for name, reader := range map[string]io.Reader{
		"whole": strings.NewReader(body), "byte by byte": iotest.OneByteReader(strings.NewReader(body)),
	} {
		s := NewStrings(reader, "items", 10)
		if got, err := all(s); err != nil || !slices.Equal(got, []string{"a b", "  "}) {
			t.Errorf("%s: %q %v", name, got, err)
		}
		if s.given > 1<<20 {
			t.Errorf("%s: %d bytes were gathered", name, s.given)
		}
	}
	for _, body := range []string{
		`{"items":[t` + space + `rue]}`, `{"items":["a` + space + `"]}`, `{"items":["a"]` + space + `x}`,
	} {
		if got, err := all(NewStrings(strings.NewReader(body), "items", 1<<20)); err == nil {
			t.Errorf("%.20s: %q", body, got)
		}
	}
}

// letters is an endless text.
type letters struct{}

func (letters) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func FuzzStrings(f *testing.F) {
	for _, body := range []string{
		`{"items":["a","\ud83e\udd80"]}`, `{"items":[1]}`, `{}`, "{\"items\":[\"\xff\"]}", `{"items":["a"]} x`,
	} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		streamed, streamErr := all(NewStrings(iotest.HalfReader(strings.NewReader(body)), "items", 1<<20))
		var whole struct {
			Items *[]string `json:"items"`
		}
		wholeErr := Unmarshal([]byte(body), &whole)
		if wholeErr == nil && whole.Items == nil {
			wholeErr = errors.New("the member is missing")
		}
		if (streamErr == nil) != (wholeErr == nil) || streamErr == nil && !slices.Equal(streamed, *whole.Items) {
			t.Errorf("%q: streamed %q %v, whole %v %v", body, streamed, streamErr, whole.Items, wholeErr)
		}
	})
}
