package targets

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// Every folder of services/ is registered, and has what its row names.
func TestEveryServiceIsRegistered(t *testing.T) {
	t.Parallel()
	const root = "../../../services/"
	folders, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	names := make([]string, 0, len(folders))
	for _, f := range folders {
		names = append(names, f.Name())
	}
	if got := Names(); !slices.Equal(got, names) {
		t.Fatalf("registered are %v, in services/ there are %v", got, names)
	}
	ports := map[int]string{}
	for _, s := range All() {
		if other := ports[s.Port]; other != "" {
			t.Errorf("%s and %s both have port %d", s.Name, other, s.Port)
		}
		ports[s.Port] = s.Name
		if !strings.Contains(s.Try, "URL") || len(s.TryPrints) == 0 || len(s.Engines) == 0 ||
			s.Image == "" || len(s.Asks) == 0 {
			t.Errorf("%s: the row is not complete: %+v", s.Name, s)
		}
	}
}
