package chart

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const (
	umbrella = "../../charts/rowlock"
	alone    = "../../charts/rowlock/charts/service"
	release  = "rowlock"
	// kubernetes is the version that the charts are rendered for, as Helm built as a Go tool knows none.
	kubernetes = "1.34.0"
)

// helms builds Helm 3 and Helm 4 once, or finds them in Go's build cache.
//
//nolint:gochecknoglobals // it is a function, and what it keeps is the same for all tests
var helms = sync.OnceValues(func() (map[string]string, error) {
	paths := map[string]string{}
	for _, major := range []string{"helm3", "helm4"} {
		var stderr bytes.Buffer
		tool := strings.Replace(major, "helm", "helm.sh/helm/v", 1) + "/cmd/helm"
		cmd := exec.CommandContext(context.Background(), "go", "tool", "-n", tool)
		cmd.Dir, cmd.Stderr = "../../tools/cluster", &stderr
		cmd.Env = append(os.Environ(), "GOWORK=off")
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("build %s: %w: %s", tool, err, stderr.String())
		}
		paths[major] = strings.TrimSpace(string(out))
	}
	return paths, nil
})

// eachHelm runs a test with Helm 3 and Helm 4.
func eachHelm(t *testing.T, test func(t *testing.T, helm string)) {
	t.Helper()
	paths, err := helms()
	if err != nil {
		t.Fatal(err)
	}
	for major, path := range paths {
		t.Run(major, func(t *testing.T) {
			t.Parallel()
			test(t, path)
		})
	}
}

// run runs a helm command with a home of its own and no cluster.
func run(t *testing.T, helm, stdin string, args ...string) (stdout string, err error) {
	t.Helper()
	home := t.TempDir()
	cmd := exec.CommandContext(t.Context(), helm, args...)
	cmd.Env = []string{"PATH=/nowhere", "HOME=" + home, "KUBECONFIG=" + filepath.Join(home, "none")}
	cmd.Stdin = strings.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", errors.New(errs.String())
	}
	return out.String(), nil
}

// template renders a chart with values in YAML.
func template(t *testing.T, helm, chart, values string) (string, error) {
	t.Helper()
	return run(t, helm, values, "template", release, chart, "--namespace=ns", "--kube-version="+kubernetes, "--values=-")
}

// render renders a chart and decodes the manifests.
func render(t *testing.T, helm, chart, values string) objects {
	t.Helper()
	manifests, err := template(t, helm, chart, values)
	if err != nil {
		t.Fatalf("%s\n%v", values, err)
	}
	return decode(t, manifests)
}
