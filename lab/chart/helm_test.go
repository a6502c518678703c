package chart

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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

	helm3 = "helm.sh/helm/v3/cmd/helm"
	helm4 = "helm.sh/helm/v4/cmd/helm"
)

// helms builds Helm 3 and Helm 4 once, or finds them in Go's build cache, and returns their paths by those names.
var helms = sync.OnceValues(func() (map[string]string, error) {
	paths := map[string]string{}
	for _, tool := range []string{helm3, helm4} {
		var stderr bytes.Buffer
		cmd := exec.CommandContext(context.Background(), "go", "tool", "-n", tool)
		cmd.Dir, cmd.Stderr = "../../tools/cluster", &stderr
		cmd.Env = append(os.Environ(), "GOWORK=off")
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("build %s: %w: %s", tool, err, stderr.String())
		}
		paths[tool] = strings.TrimSpace(string(out))
	}
	return paths, nil
})

// run runs a command of a Helm with an empty home and no cluster. It does not collect garbage: it soon ends.
func run(t *testing.T, helm, stdin string, args ...string) (stdout string, err error) {
	t.Helper()
	paths, err := helms()
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	cmd := exec.CommandContext(t.Context(), paths[helm], args...)
	cmd.Env = []string{"PATH=/nowhere", "HOME=" + home, "KUBECONFIG=" + filepath.Join(home, "none"), "GOGC=off"}
	cmd.Stdin = strings.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", errors.New(errs.String())
	}
	return out.String(), nil
}

// template renders a chart by a Helm, with values in YAML. The service's chart also gets what it requires.
func template(t *testing.T, helm, chart, values string, args ...string) (manifests string, err error) {
	t.Helper()
	command := []string{"template", release, chart, "--namespace=ns", "--kube-version=" + kubernetes}
	if chart == alone {
		command = append(command, "--values=testdata/bare.yaml")
	}
	return run(t, helm, values, slices.Concat(command, []string{"--values=-"}, args)...)
}

// renderings keeps what render has returned.
var renderings sync.Map

// render renders a chart by Helm 4 and returns the decoded manifests. Equal arguments are rendered once.
func render(t *testing.T, chart, values string, args ...string) objects {
	t.Helper()
	once, _ := renderings.LoadOrStore(fmt.Sprint(chart, values, args), sync.OnceValues(func() (objects, error) {
		manifests, err := template(t, helm4, chart, values, args...)
		if err != nil {
			return nil, err
		}
		return decode(manifests)
	}))
	all, err := once.(func() (objects, error))() //nolint:errcheck // nothing else is stored
	if err != nil {
		t.Fatalf("%s\n%v", values, err)
	}
	return all
}
