package counts_test

import (
	"os"
	"testing"

	"github.com/rowlock/rowlock/client/counts"
	"github.com/rowlock/rowlock/client/internal/clienttest"
)

func TestMain(m *testing.M) { os.Exit(clienttest.Main(m, "COUNTS_URL")) }

// Two changes never share a generated key, and the caller's key replaces it.
func TestKeysOfTheirOwn(t *testing.T) {
	t.Parallel()
	s := &clienttest.Script{Answers: []clienttest.Answer{{Status: 200, Body: `{"itemId":"a","value":8}`}}}
	c, err := counts.New("http://counts", s.Option())
	if err != nil {
		t.Fatal(err)
	}
	for _, options := range [][]counts.Option{nil, nil, {counts.WithKey("mine")}} {
		if _, err := c.Increase(t.Context(), "a", 1, options...); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.Keys[0]) != 36 || s.Keys[0] == s.Keys[1] || s.Keys[2] != "mine" {
		t.Errorf("the keys are %q", s.Keys)
	}
}
