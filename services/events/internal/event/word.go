package event

import (
	_ "embed" // for the words
	"math/rand/v2"
	"strings"
	"sync"
)

//go:embed words.txt
var wordsFile string

// words are the lines of words.txt that are no comment.
var words = sync.OnceValue(func() []string { //nolint:gochecknoglobals // read only
	var list []string
	for line := range strings.Lines(wordsFile) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			list = append(list, line)
		}
	}
	return list
})

// RandomWord is what an event's value is made of: one of some four thousand
// English words, every one as likely.
func RandomWord() string {
	list := words()
	return list[rand.IntN(len(list))]
}
