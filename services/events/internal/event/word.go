package event

import (
	_ "embed" // for the words
	"math/rand/v2"
	"regexp"
	"sync"
)

//go:embed words.txt
var wordsFile string

// words returns the lines of words.txt without its comments.
var words = sync.OnceValue(func() []string {
	return regexp.MustCompile(`(?m)^[a-z]+$`).FindAllString(wordsFile, -1)
})

// RandomWord returns one of about four thousand English words, each equally likely.
func RandomWord() string {
	list := words()
	return list[rand.IntN(len(list))]
}
