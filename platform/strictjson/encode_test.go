package strictjson

import (
	"testing"
	"time"
)

func TestMarshal(t *testing.T) {
	t.Parallel()
	type answer struct {
		ID    string    `json:"id"`
		At    time.Time `json:"at"`
		Value *int64    `json:"value"`
		Code  *string   `json:"code,omitempty"`
		None  []string  `json:"none"`
		Off   bool      `json:"off,omitempty"`
	}
	at := time.Date(2026, 11, 22, 9, 30, 0, 120_000_999, time.FixedZone("", 3600))
	got, err := Marshal(answer{ID: "<a&b>\u2028é", At: at})
	want := `{"id":"<a&b>\u2028é","at":"2026-11-22T08:30:00.120000Z","value":null,"none":[]}`
	if err != nil || string(got) != want {
		t.Errorf("%s %v, want %s", got, err, want)
	}
	if got, err := Marshal(map[string]int{"b": 1, "a": 2}); err != nil || string(got) != `{"a":2,"b":1}` {
		t.Errorf("%s %v", got, err)
	}
	if _, err := Marshal(func() {}); err == nil {
		t.Error("a function was encoded")
	}
}
