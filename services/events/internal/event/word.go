package event

import (
	_ "embed" // for the words
	"math/rand/v2"
	"strings"
	"sync"
)

//go:embed words.txt
var wordsFile string

// words returns the lines of words.txt without its comments.
var words = sync.OnceValue(func() []string {
	var list []string
	for line := range strings.Lines(wordsFile) {
		line = strings.TrimSpace(line)
		if line != "" && line[0] != '#' {
			list = append(list, line)
		}
	}
	return list
})

// RandomWord returns one of about four thousand English words, each equally likely.
func RandomWord() string {
	list := words()
	return list[rand.IntN(len(list))]
}
