package settings

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// rereadAfter is the age at which a token is read again. Kubernetes
// writes the next token a fifth of its life, two minutes or more, before it expires.
const rereadAfter = 5 * time.Second

// TokenFile reads a token from a file that another process replaces. It is safe for
// concurrent use.
type TokenFile struct {
	Path string

	mu    sync.Mutex
	token string
	read  time.Time
}

// Token returns the token, read at most rereadAfter ago. While the file is empty or
// cannot be read, it returns the last token, or an error if there was none.
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
