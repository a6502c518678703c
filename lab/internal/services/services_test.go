package services_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/lab/internal/services"
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
	if got := services.Names(); !slices.Equal(got, names) {
		t.Fatalf("registered are %v, in services/ there are %v", got, names)
	}
	ports := map[int]string{}
	for _, s := range services.All() {
		if other := ports[s.Port]; other != "" {
			t.Errorf("%s and %s both have port %d", s.Name, other, s.Port)
		}
		ports[s.Port] = s.Name
		if !strings.Contains(s.Try, "URL") || len(s.Tables) == 0 || len(s.Engines) == 0 || s.Image == "" {
			t.Errorf("%s: the row is not complete: %+v", s.Name, s)
		}
	}
}

func TestChoose(t *testing.T) {
	t.Parallel()
	all, err := services.Choose(nil)
	if err != nil || len(all) != len(services.Names()) {
		t.Errorf("without a name: %v, %v", all, err)
	}
	two, err := services.Choose([]string{services.Pyggpot, services.Events, services.Pyggpot})
	if err != nil || len(two) != 2 || two[0].Name != services.Events || len(two[0].Commands()) != 2 || two[1].Workloads()[0] != "" {
		t.Errorf("two: %v, %v", two, err)
	}
	if _, err := services.Choose([]string{"tea"}); err == nil || !strings.Contains(err.Error(), `"tea"; the services are counts, `) {
		t.Errorf("an unknown one: %v", err)
	}
}
