package main

import (
	"os"
	"strings"
	"testing"
)

func TestScreen(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	s := &screen{out: &out, terminal: true}
	live := s.liveLine()
	live("kill 1 of 8 s")
	live("kill " + strings.Repeat("x", 500))
	s.say("kill %d", 8)
	s.say("term")
	if got := out.String(); !strings.HasSuffix(got, clearLine+"kill 8\nterm\n") || len(got) > 250 {
		t.Errorf("%q", got)
	}
	if (&screen{out: &out}).liveLine() != nil || isTerminal(&out) {
		t.Error("a line is written over where nobody looks")
	}
	file, err := os.Create(t.TempDir() + "/file")
	if err != nil {
		t.Fatal(err)
	}
	if isTerminal(file) {
		t.Error("a file is taken for a terminal")
	}
	if err := file.Close(); err != nil {
		t.Error(err)
	}
}
