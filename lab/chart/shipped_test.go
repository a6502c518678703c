package chart

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/rowlock/rowlock/lab/internal/services"
)

// largest is what Kubernetes takes as one ConfigMap or Secret.
const largest = 1 << 20

// signals turns on all of dashboards/ and rules/, with labels for both.
const signals = `
prometheusRule: {enabled: true}
dashboards: {enabled: true, labels: {grafana_dashboard: yes please}, annotations: {grafana_folder: Rowlock}}
`

// Every file of dashboards/ gets to Grafana as it stands, braces of legends and all, under a name that Kubernetes
// takes.
func TestEveryDashboardIsShipped(t *testing.T) {
	t.Parallel()
	eachHelm(t, func(t *testing.T, helm string) {
		all := render(t, helm, umbrella, signals)
		files := glob(t, umbrella+"/dashboards/*")
		for _, file := range files {
			base := filepath.Base(file)
			name := "rowlock-dashboard-" + strings.TrimSuffix(base, ".json")
			if !regexp.MustCompile(`^[a-z0-9][-a-z0-9]*\.json$`).MatchString(base) {
				t.Errorf("%s: no name for a dashboard", file)
				continue
			}
			configMap := get[core.ConfigMap](t, all, "ConfigMap/"+name)
			if got, want := configMap.Data[base], strings.TrimRight(read(t, file), "\n"); got != want ||
				len(configMap.Data) != 1 {
				t.Errorf("%s is shipped as\n%s", file, got)
			}
			if n := len(raw(t, configMap)); n > largest*9/10 {
				t.Errorf("%s: a ConfigMap of %d bytes", file, n)
			}
			if configMap.Labels["grafana_dashboard"] != "yes please" || configMap.Annotations["grafana_folder"] != "Rowlock" {
				t.Errorf("%s: %v, %v", name, configMap.Labels, configMap.Annotations)
			}
		}
		n := 0
		for id := range all {
			if strings.HasPrefix(id, "ConfigMap/rowlock-dashboard-") {
				n++
			}
		}
		if n != len(files) {
			t.Errorf("%d dashboards are shipped, and there are %d", n, len(files))
		}
	})
}

// Every group of every file of rules/ gets to Prometheus, with the same values but for the release that it is about.
func TestEveryRuleIsShipped(t *testing.T) {
	t.Parallel()
	eachHelm(t, func(t *testing.T, helm string) {
		var want list
		for _, file := range glob(t, umbrella+"/rules/*") {
			var content struct {
				Groups list `json:"groups"`
			}
			if err := yaml.UnmarshalStrict([]byte(read(t, file)), &content); err != nil || !strings.HasSuffix(file, ".yaml") {
				t.Fatalf("%s: %v", file, err)
			}
			for _, group := range content.Groups {
				rules, _ := at(group, "rules").(list)
				for _, rule := range rules {
					one, isRule := rule.(dict)
					if !isRule {
						t.Fatalf("%s: %v", file, rule)
					}
					one["expr"] = fmt.Sprintf("(%s)\n%s", one["expr"], ofRelease)
				}
			}
			want = append(want, content.Groups...)
		}
		// Decoded strictly: a field that the operator does not know is none that Prometheus knows.
		got, ok := at(render(t, helm, umbrella, signals)["PrometheusRule/rowlock"].plain, "spec.groups").(list)
		if !ok || len(got) == 0 || !reflect.DeepEqual(got, want) {
			t.Errorf("shipped\n%s\nwant\n%s", raw(t, got), raw(t, want))
		}
		var names []string
		for _, group := range got {
			name, _ := at(group, "name").(string)
			if slices.Contains(names, name) {
				t.Errorf("two groups are called %q", name)
			}
			names = append(names, name)
		}
	})
}

// The images that hack/images builds, and pushes, are those that the chart names.
func TestImagesAreWhereTheChartLooks(t *testing.T) {
	t.Parallel()
	eachHelm(t, func(t *testing.T, helm string) {
		for _, registry := range []string{"", "ghcr.io/you", "ghcr.io/you/"} {
			build := exec.CommandContext(
				t.Context(),
				"../../hack/images",
				append([]string{"--names", "v1.2"}, services.Names()...)...)
			build.Env = append(os.Environ(), "PUSH="+registry)
			out, err := build.Output()
			if err != nil {
				t.Fatal(err)
			}
			want := strings.Fields(string(out))
			slices.Sort(want)
			var got []string
			for _, o := range render(t, helm, umbrella, "global: {image: {tag: v1.2, registry: '"+registry+"'}}") {
				switch o := o.typed.(type) {
				case *apps.Deployment:
					got = append(got, o.Spec.Template.Spec.Containers[0].Image)
				case *core.Pod:
					got = append(got, o.Spec.Containers[0].Image)
				}
			}
			slices.Sort(got)
			if got = slices.Compact(got); !slices.Equal(got, want) {
				t.Errorf("registry %q: the chart looks for %v, built are %v", registry, got, want)
			}
		}
	})
}
