package chart

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/rowlock/rowlock/platform/config"
)

// ofRelease is appended to each expression of the rules, so that they are about one release.
const ofRelease = `and on (namespace, app_kubernetes_io_instance) label_replace(label_replace(vector(1),
  "namespace", "ns", "", ""), "app_kubernetes_io_instance", "` + release + `", "", "")`

// Several releases ship their rules to one Prometheus: each alert fires once, by the rules of its release.
func TestReleasesSpeakForThemselves(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("promtool"); err != nil {
		if config.Environ()["CI"] != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	dir := t.TempDir()
	var files []string
	for i, name := range [][2]string{{"shop", "blue"}, {"shop", "green"}, {"other", "blue"}} {
		manifests, err := run(t, helm4, signals, "template", name[1], umbrella, "--namespace="+name[0],
			"--kube-version="+kubernetes, "--values=-", "--show-only=templates/prometheusrule.yaml")
		if err != nil {
			t.Fatal(err)
		}
		var rule struct {
			Spec dict `json:"spec"`
		}
		if err := yaml.Unmarshal([]byte(manifests), &rule); err != nil {
			t.Fatal(err)
		}
		text, err := yaml.Marshal(rule.Spec)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, strconv.Itoa(i)+".yaml")
		write(t, filepath.Join(dir, files[i]), string(text))
	}
	test := filepath.Join(dir, "test.yaml")
	write(t, test, "rule_files: ["+strings.Join(files, ", ")+"]\n"+read(t, "testdata/releases.yaml"))
	if out, err := exec.CommandContext(t.Context(), "promtool", "test", "rules", test).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
