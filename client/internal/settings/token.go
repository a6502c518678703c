package settings

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// rereadAfter is for how long a token that was read is used. Kubernetes writes the
// next one a fifth of a token's life, two minutes or more, before the end of it.
const rereadAfter = 5 * time.Second

// TokenFile reads a token from a file that another process replaces. It is safe
// for concurrent use.
type TokenFile struct {
	Path string

	mu    sync.Mutex
	token string
	read  time.Time
}

// Token returns the token, at most rereadAfter old. While the file cannot be read
// or is empty, it returns the last one, and an error before there was any.
func (f *TokenFile) Token() (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.token != "" && time.Since(f.read) < rereadAfter {
		return f.token, nil
	}
	raw, err := os.ReadFile(f.Path)
	token := strings.TrimSpace(string(raw))
	switch {
	case token != "" && err == nil:
		f.token = token
	case f.token == "" && err == nil:
		return "", errors.New("the token file is empty: " + f.Path)
	case f.token == "":
		return "", fmt.Errorf("read the token file: %w", err)
	}
	f.read = time.Now()
	return f.token, nil
}
