package rowlock_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	rowlock "github.com/rowlock/rowlock/client"
	"github.com/rowlock/rowlock/client/internal/clienttest"
)

// Every request has the token, each attempt too, and a request of the internal API, which may have another address.
func TestToken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &clienttest.Script{Answers: []answer{overloaded, counted}}
		c := openScript(t, s, rowlock.WithToken("secret"), rowlock.WithInternalURL("http://internal"))
		if _, err := c.Increase(t.Context(), "a", 1); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Get(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if want := slices.Repeat([]string{"Bearer secret"}, 3); !slices.Equal(s.Tokens, want) {
			t.Errorf("the requests have %q", s.Tokens)
		}
		if want := []string{"counts", "counts", "internal"}; !slices.Equal(s.Hosts, want) {
			t.Errorf("the requests went to %q, want %q", s.Hosts, want)
		}
	})
}

// A token that is replaced is used seconds later, and the last one as long as there is none.
func TestTokenFile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "token")
		s := &clienttest.Script{Answers: []answer{counted}}
		c := openScript(t, s, rowlock.WithTokenFile(path))
		write := func(token string) {
			t.Helper()
			if err := os.WriteFile(path, []byte(token), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		wantToken := func(want string) {
			t.Helper()
			if _, err := c.Get(t.Context(), "a"); err != nil || s.Tokens[len(s.Tokens)-1] != want {
				t.Errorf("the request has %q, want %q: %v", s.Tokens[len(s.Tokens)-1], want, err)
			}
		}

		_, err := c.Increase(t.Context(), "a", 1)
		if !errors.Is(err, rowlock.ErrUnauthenticated) || !errors.Is(err, os.ErrNotExist) || rowlock.OutcomeUnknown(err) ||
			len(s.Tokens) != 0 {
			t.Errorf("without a file: %v, sent %d times", err, len(s.Tokens))
		}
		write("\n")
		if _, err = c.Increase(t.Context(), "a", 1); !errors.Is(err, rowlock.ErrUnauthenticated) || len(s.Tokens) != 0 {
			t.Errorf("with an empty file: %v, sent %d times", err, len(s.Tokens))
		}
		write("first\n")
		wantToken("Bearer first")
		write("second")
		wantToken("Bearer first")
		time.Sleep(5 * time.Second)
		wantToken("Bearer second")
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		wantToken("Bearer second")
		write("third")
		time.Sleep(5 * time.Second)
		wantToken("Bearer third")
	})
}
